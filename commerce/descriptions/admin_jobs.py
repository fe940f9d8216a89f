"""Bulk jobs in the admin: a page that asks how the descriptions should be, and one that shows how far they are."""

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from commerce.catalog.models import Product
from commerce.descriptions import allowances, jobs
from commerce.descriptions.admin_forms import JobForm, first_error
from commerce.descriptions.admin_words import ITEM_ERRORS, ITEM_STATES, JOB_STATES, LENGTHS, TONES, told
from commerce.descriptions.allowances import Holder
from commerce.descriptions.models import DescriptionJob
from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.api.query import whole_number

PRODUCTS = "admin:commerce_catalog_product_changelist"


def new_job(request: HttpRequest) -> HttpResponse:
    """Which products were chosen, and how their descriptions should be; sent, it begins."""
    asked = request.POST if request.method == "POST" else request.GET
    product_ids = [number for text in asked.getlist("product") if (number := whole_number(text)) is not None]
    if request.method == "POST" and (job := _begin(request, product_ids)):
        return HttpResponseRedirect(_url_of(job))
    products = list(Product.objects.managed_by(user_of(request)).filter(pk__in=product_ids[: jobs.MOST_PRODUCTS + 1]))
    if not products:
        messages.error(request, _("Choose products first."))
        return HttpResponseRedirect(reverse(PRODUCTS))
    context = {
        "title": _("Write descriptions"),
        "products": products,
        "most": jobs.MOST_PRODUCTS,
        "left": _left(products),
        "described": sum(1 for product in products if product.description),
        "tones": TONES.items(),
        "lengths": LENGTHS.items(),
        "asked": asked,
    }
    return render(request, "descriptions/new_job.html", admin.site.each_context(request) | context)


def show_job(request: HttpRequest, job_id: int) -> HttpResponse:
    job = _job(request, job_id)
    items = [
        {"item": item, "state": ITEM_STATES[item.state], "error": ITEM_ERRORS.get(item.error, item.error)}
        for item in job.items.select_related("product", "draft").order_by("place")
    ]
    context = {"title": _("Descriptions of many products"), "job": job, "items": items} | _words(job)
    return render(request, "descriptions/job.html", admin.site.each_context(request) | context)


def progress(request: HttpRequest, job_id: int) -> JsonResponse:
    """How far it is, for the page's script."""
    job = _job(request, job_id)
    return JsonResponse({"done": job.progress, "is_open": job.is_open, **_words(job)})


def cancel(request: HttpRequest, job_id: int) -> HttpResponse:
    try:
        job = jobs.cancel_job(author=user_of(request), job_id=job_id, now=timezone.now())
    except ApiError as error:
        messages.error(request, told(error))
        return HttpResponseRedirect(reverse("admin:commerce_descriptions_descriptionjob_changelist"))
    return HttpResponseRedirect(_url_of(job))


def user_of(request: HttpRequest) -> User:
    if not isinstance(request.user, User):
        raise PermissionDenied  # the admin stands in front
    return request.user


def _begin(request: HttpRequest, product_ids: list[int]) -> DescriptionJob | None:
    form = JobForm(request.POST)
    if not form.is_valid():
        messages.error(request, first_error(form))
        return None
    try:
        return jobs.create_job(
            author=user_of(request), product_ids=product_ids, wishes=form.wishes(), now=timezone.now()
        )
    except ApiError as error:
        messages.error(request, told(error))
        return None


def _job(request: HttpRequest, job_id: int) -> DescriptionJob:
    job = DescriptionJob.objects.for_user(user_of(request)).select_related("author").filter(pk=job_id).first()
    if job is None:
        raise Http404
    jobs.keep_going(job=job, now=timezone.now())
    return job


def _words(job: DescriptionJob) -> dict[str, Any]:
    """What the job's state is called, and how far it is, in words."""
    counts = {"written": job.written, "failed": job.failed, "total": job.total}
    so_far = _("%(written)d of %(total)d written, %(failed)d failed") % counts
    is_ending = job.is_open and job.cancelled_at
    return {"state": str(_("Is being cancelled") if is_ending else JOB_STATES[job.state]), "told": so_far}


def _left(products: list[Product]) -> int | None:
    """The least that is left of the shops' allowances; None where there is no limit."""
    now, shops = timezone.now(), {product.shop_id for product in products}
    left = [allowances.read(holder=Holder(shop_id=shop_id), now=now).left for shop_id in shops]
    return min((number for number in left if number is not None), default=None)


def _url_of(job: DescriptionJob) -> str:
    return reverse("admin:commerce_descriptions_descriptionjob_change", args=[job.pk])
