"""Translated labels and messages of the admin pages."""

from collections.abc import Iterator, Mapping, Sequence

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from commerce.descriptions.drafts import DraftDecision
from commerce.descriptions.jobs.processing import NO_TEXT, NOT_DONE, PRODUCT_GONE
from commerce.descriptions.models import DescriptionJob, JobItem
from commerce.descriptions.quotas import QuotaExceeded
from shared.api.errors import ApiError

Label = str | Promise

JOB_STATES: Mapping[str, Label] = {
    DescriptionJob.State.WAITING: _("Waiting for the model server"),
    DescriptionJob.State.RUNNING: _("Running"),
    DescriptionJob.State.COMPLETED: _("Completed"),
    DescriptionJob.State.CANCELLED: _("Cancelled"),
    DescriptionJob.State.FAILED: _("Failed"),
}
ITEM_STATES: Mapping[str, Label] = {
    JobItem.State.WAITING: _("Waiting"),
    JobItem.State.WRITTEN: _("Written"),
    JobItem.State.FAILED: _("Failed"),
    JobItem.State.CANCELLED: _("Cancelled"),
}
ITEM_ERRORS: Mapping[str, Label] = {
    NOT_DONE: _("The model server did not write it."),
    NO_TEXT: _("The model's text has no words or is too long."),
    PRODUCT_GONE: _("The product was deleted, or its shop no longer belongs to the author."),
}

MAX_NAMES_COUNT = 10


def describe_errors(decisions: Sequence[DraftDecision]) -> Iterator[str]:
    """Yield a message for each reason why drafts are unchanged, with the names of their products."""
    for error in dict.fromkeys(decision.error for decision in decisions if decision.error):
        names = [decision.draft.product.name for decision in decisions if decision.error == error]
        products = ", ".join(names[:MAX_NAMES_COUNT])
        if len(names) > MAX_NAMES_COUNT:
            values = {"products": products, "more": len(names) - MAX_NAMES_COUNT}
            products = gettext("%(products)s and %(more)d more") % values
        counts = {"reason": gettext(error), "count": len(names), "products": products}
        yield gettext("%(reason)s Unchanged drafts: %(count)d (%(products)s)") % counts


def translate_error(error: ApiError) -> str:
    """Return the error's message in the language of the page."""
    if isinstance(error, QuotaExceeded):
        counts = {"limit": error.status.limit, "left": error.status.left}
        return (
            gettext(
                "This shop has %(left)s of its %(limit)s descriptions left for today. The quota resets at midnight UTC."
            )
            % counts
        )
    return gettext(error.problem.message)
