"""What things of descriptions are called on the admin's pages."""

from collections.abc import Mapping

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from commerce.descriptions.allowances import AllowanceSpent
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
