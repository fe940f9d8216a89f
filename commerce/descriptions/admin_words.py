"""What things of descriptions are called on the admin's pages."""

from collections.abc import Iterator, Mapping, Sequence

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from commerce.descriptions.allowances import AllowanceSpent
from commerce.descriptions.drafts import Outcome
from commerce.descriptions.job_rounds import NO_TEXT, NOT_DONE, PRODUCT_GONE
from commerce.descriptions.models import DescriptionJob, JobItem
from shared.api.errors import ApiError

Text = str | Promise

# What the built-in model knows; another model may be asked for any by the API.
TONES: Mapping[str, Text] = {
    "": _("Plain"),
    "friendly": _("Friendly"),
    "formal": _("Formal"),
    "playful": _("Playful"),
    "luxurious": _("Luxurious"),
}
LENGTHS: Mapping[int, Text] = {40: _("Short"), 80: _("Medium"), 150: _("Long")}
JOB_STATES: Mapping[str, Text] = {
    DescriptionJob.State.WAITING: _("Waits for the model server"),
    DescriptionJob.State.RUNNING: _("Is being written"),
    DescriptionJob.State.COMPLETED: _("Done"),
    DescriptionJob.State.CANCELLED: _("Cancelled"),
    DescriptionJob.State.FAILED: _("Failed"),
}
ITEM_STATES: Mapping[str, Text] = {
    JobItem.State.WAITING: _("Waits"),
    JobItem.State.WRITTEN: _("Written"),
    JobItem.State.FAILED: _("Failed"),
    JobItem.State.CANCELLED: _("Cancelled"),
}
ITEM_ERRORS: Mapping[str, Text] = {
    NOT_DONE: _("The model server did not do it."),
    NO_TEXT: _("What the model wrote has no words."),
    PRODUCT_GONE: _("The product is deleted, or its shop is no longer that of whoever asked."),
}

NAMED = 10


def refusals(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """For each reason why drafts were left as they are, which products they are for."""
    for reason in dict.fromkeys(outcome.refusal for outcome in outcomes if outcome.refusal):
        names = [outcome.draft.product.name for outcome in outcomes if outcome.refusal == reason]
        products = ", ".join(names[:NAMED])
        if len(names) > NAMED:
            more = {"products": products, "more": len(names) - NAMED}
            products = gettext("%(products)s and %(more)d more") % more
        words = {"reason": gettext(reason), "count": len(names), "products": products}
        yield gettext("%(reason)s Left as they are: %(count)d (%(products)s)") % words


def told(error: ApiError) -> str:
    """What an error tells, in the language of the page."""
    if isinstance(error, AllowanceSpent):
        counts = {"limit": error.state.limit, "left": error.state.left}
        return (
            gettext(
                "Of the %(limit)s descriptions that this shop may ask for today, %(left)s are left. "
                "There are new ones at midnight UTC."
            )
            % counts
        )
    return gettext(error.problem.message)
