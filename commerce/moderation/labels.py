"""Labels of the moderators' pages, and translations of the errors of services."""

from collections.abc import Mapping
from datetime import timedelta

from django.utils.functional import Promise
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from commerce.moderation.models import AbuseReport, Appeal, Case, ContentKind, Decision

Action = Decision.Action
Standing = AbuseReport.Standing
Text = str | Promise

KINDS: Mapping[str, Text] = {ContentKind.REVIEW: _("Review"), ContentKind.QUESTION: _("Question")}
ACTIONS: Mapping[str, Text] = {
    Action.ACCEPTED: _("Taken down"),
    Action.REJECTED: _("Kept"),
    Action.HIDDEN: _("Hidden for now"),
    Action.SHOWN: _("Shown again"),
    Action.WARNED: _("Author warned"),
    Action.RESTORED: _("Restored"),
    Action.REPORT_DELETED: _("Report deleted"),
    Action.ESCALATED: _("Escalated"),
    Action.APPEAL_KEPT: _("Appeal: stays down"),
    Action.APPEAL_OVERTURNED: _("Appeal: brought back"),
}
STANDINGS: Mapping[str, Text] = {
    Standing.TRUSTED: _("Counts"),
    Standing.UNRELIABLE: _("Does not count: moderators mostly disagreed with this reporter"),
    Standing.NEW_ACCOUNT: _("Does not count: the account was less than a week old"),
    Standing.INVOLVED: _("Does not count: works for the shop, or wrote it"),
}
STATES: Mapping[str, Text] = {
    Case.State.OPEN: _("Waits for a decision"),
    Case.State.APPEALED: _("Taken down, and its author has appealed"),
    Case.State.ACCEPTED: _("Taken down"),
    Case.State.REJECTED: _("Kept"),
    Case.State.CLOSED: _("Nothing to decide"),
}
APPEAL_OUTCOMES: Mapping[str, Text] = {
    "": "",
    Appeal.Status.OPEN: _("Open"),
    Appeal.Status.KEPT: _("Stays down"),
    Appeal.Status.OVERTURNED: _("Brought back"),
}


def translate_error(error: object) -> str:
    """Return the message in the moderator's language, if the catalog has it."""
    return gettext(str(error))


def short_age(age: timedelta) -> str:
    """Return an age in its largest unit, such as "3 days"."""
    minutes = int(age.total_seconds()) // 60
    if minutes < 60:
        return ngettext("%(count)d minute", "%(count)d minutes", minutes) % {"count": minutes}
    if (hours := minutes // 60) < 24:
        return ngettext("%(count)d hour", "%(count)d hours", hours) % {"count": hours}
    return ngettext("%(count)d day", "%(count)d days", hours // 24) % {"count": hours // 24}
