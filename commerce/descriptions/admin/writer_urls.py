"""Routes of the description writer, for the super admins' product form and for the shop users' page of texts."""

from collections.abc import Callable

from django.urls import URLPattern, path

from commerce.descriptions.admin import draft_views
from commerce.descriptions.admin.draft_views import json_view
from shared.accounts.models import User


def writer_urls(*, prefix: str, name: str, may_use: Callable[[User], bool]) -> list[URLPattern]:
    """Return the routes, whose names begin with `name`. The services check which products a user may change."""
    return [
        path(f"{prefix}write/<id:product_id>/", json_view(draft_views.write, may_use=may_use), name=f"{name}_write"),
        # Not `id`, which is never 0: the page's script replaces the 0 with the draft's id.
        path(f"{prefix}<int:draft_id>/use/", json_view(draft_views.use, may_use=may_use), name=f"{name}_use"),
        path(
            f"{prefix}<int:draft_id>/discard/", json_view(draft_views.discard, may_use=may_use), name=f"{name}_discard"
        ),
    ]
