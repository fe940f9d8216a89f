"""Pages of jobs: a form for a new job, and the progress of a job."""

from typing import Any

from django.contrib import admin, messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from commerce.catalog.models import Product
from commerce.descriptions import quotas
from commerce.descriptions.admin.forms import JobForm, first_error
from commerce.descriptions.admin.labels import (
    ITEM_ERRORS,
    ITEM_STATES,
    JOB_STATES,
    translate_error,
)
from commerce.descriptions.jobs import services
from commerce.descriptions.models import DescriptionJob
from commerce.descriptions.quotas import QuotaOwner
from commerce.descriptions.writer import LENGTHS, TONES
from shared.accounts.permissions import signed_in_user
from shared.api.errors import ApiError
from shared.api.query_params import parse_integer

PRODUCT_LIST = "admin:commerce_catalog_product_changelist"


def new_job(request: HttpRequest) -> HttpResponse:
    """Show the selected products and the options of a new job. A POST creates it."""
    data = request.POST if request.method == "POST" else request.GET
    product_ids = [number for text in data.getlist("product") if (number := parse_integer(text)) is not None]
    if request.method == "POST" and (job := _create_job(request, product_ids)):
        return HttpResponseRedirect(_job_url(job))
    shown_ids = product_ids[: services.MAX_PRODUCTS_COUNT + 1]
    products = list(Product.objects.managed_by(signed_in_user(request)).filter(pk__in=shown_ids))
    if not products:
        messages.error(request, _("Select products first."))
        return HttpResponseRedirect(reverse(PRODUCT_LIST))
    context = {
        "title": _("Write descriptions"),
        "products": products,
        "left": _quota_left(products),
        "described": sum(1 for product in products if product.description),
        "tones": TONES.items(),
        "lengths": LENGTHS.items(),
        "data": data,
    }
    return render(request, "descriptions/new_job.html", admin.site.each_context(request) | context)


def show_job(request: HttpRequest, job_id: int) -> HttpResponse:
    """Show the progress of a job and the outcome for each product."""
    job = _find_job(request, job_id)
    rows = [
        {"item": item, "state": ITEM_STATES[item.state], "error": ITEM_ERRORS.get(item.error, item.error)}
        for item in job.items.select_related("product", "draft").order_by("position")
    ]
    context = {"title": _("Description job"), "job": job, "rows": rows} | _progress_labels(job)
    return render(request, "descriptions/job.html", admin.site.each_context(request) | context)


def progress(request: HttpRequest, job_id: int) -> JsonResponse:
    """Return the progress of a job for the page's script."""
    job = _find_job(request, job_id)
    return JsonResponse({"done": job.progress, "is_open": job.is_open, **_progress_labels(job)})


def cancel(request: HttpRequest, job_id: int) -> HttpResponse:
    """Cancel a job and return to its page."""
    try:
        job = services.cancel_job(author=signed_in_user(request), job_id=job_id, now=timezone.now())
    except ApiError as error:
        messages.error(request, translate_error(error))
        return HttpResponseRedirect(reverse("admin:commerce_descriptions_descriptionjob_changelist"))
    return HttpResponseRedirect(_job_url(job))


def _create_job(request: HttpRequest, product_ids: list[int]) -> DescriptionJob | None:
    form = JobForm(request.POST)
    if not form.is_valid():
        messages.error(request, first_error(form))
        return None
    try:
        return services.create_job(
            author=signed_in_user(request), product_ids=product_ids, options=form.to_options(), now=timezone.now()
        )
    except ApiError as error:
        messages.error(request, translate_error(error))
        return None


def _find_job(request: HttpRequest, job_id: int) -> DescriptionJob:
    job = DescriptionJob.objects.for_user(signed_in_user(request)).select_related("author").filter(pk=job_id).first()
    if job is None:
        raise Http404
    services.process_without_worker(job=job, now=timezone.now())
    return job


def _progress_labels(job: DescriptionJob) -> dict[str, Any]:
    """Return the labels of the job's state and of its counts."""
    counts = {"written": job.written, "failed": job.failed, "total": job.total}
    counts_label = _("%(written)d of %(total)d written, %(failed)d failed") % counts
    is_cancelling = job.is_open and job.cancelled_at
    return {"state": str(_("Cancelling") if is_cancelling else JOB_STATES[job.state]), "counts": counts_label}


def _quota_left(products: list[Product]) -> int | None:
    """Return the smallest remaining quota of the products' shops, or None where there is no limit."""
    now, shop_ids = timezone.now(), {product.shop_id for product in products}
    left = [quotas.get_status(owner=QuotaOwner(shop_id=shop_id), now=now).left for shop_id in shop_ids]
    return min((number for number in left if number is not None), default=None)


def _job_url(job: DescriptionJob) -> str:
    return reverse("admin:commerce_descriptions_descriptionjob_change", args=[job.pk])
