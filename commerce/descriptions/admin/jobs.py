"""Admin of jobs: Django's list, with pages of our own for a new job and for its progress."""

from collections.abc import Callable

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from commerce.descriptions.admin import job_views
from commerce.descriptions.admin.labels import JOB_STATES
from commerce.descriptions.models import DescriptionJob
from shared.api.admin.base import LargeTableAdmin, NoDeleteMixin


@admin.register(DescriptionJob)
class DescriptionJobAdmin(NoDeleteMixin, LargeTableAdmin):
    """Read-only admin. Jobs are created by an action of the product list."""

    list_display = ["created_at", "author", "state_label", "progress_bar", "ended_at"]
    list_select_related = ["author"]
    list_filter = ["state"]

    def get_urls(self) -> list[URLPattern]:
        pages: list[tuple[str, str, Callable[..., HttpResponse]]] = [
            ("new/", "new_job", require_http_methods(["GET", "POST"])(job_views.new_job)),
            ("<int:job_id>/change/", "descriptionjob_change", require_GET(job_views.show_job)),
            ("<int:job_id>/progress/", "job_progress", require_GET(job_views.progress)),
            ("<int:job_id>/cancel/", "job_cancel", require_POST(job_views.cancel)),
        ]
        return [
            *(
                path(route, admin.site.admin_view(view), name=f"commerce_descriptions_{name}")
                for route, name, view in pages
            ),
            path(
                "", admin.site.admin_view(self.changelist_view), name="commerce_descriptions_descriptionjob_changelist"
            ),
        ]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    @admin.display(description=_("state"))
    def state_label(self, job: DescriptionJob) -> str:
        return str(JOB_STATES[job.state])

    @admin.display(description=_("progress"))
    def progress_bar(self, job: DescriptionJob) -> str:
        return format_html(
            '<progress max="{}" value="{}"></progress> {}/{}',
            job.total,
            job.progress,
            job.progress,
            job.total,
        )
