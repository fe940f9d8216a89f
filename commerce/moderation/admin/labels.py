"""What the moderators' pages call things. What a service says in English is said in the moderator's language where
the catalogue knows it."""

from collections.abc import Mapping
from datetime import timedelta

from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_noop, ngettext
from django.utils.translation import gettext_lazy as _

from commerce.moderation.models import AbuseReport, Case, Decision, Kind

Action = Decision.Action
Standing = AbuseReport.Standing
Text = str | Promise

KINDS: Mapping[str, Text] = {Kind.REVIEW: _("Review"), Kind.QUESTION: _("Question")}
DONE: Mapping[str, Text] = {
    Action.ACCEPTED: _("Taken down"),
    Action.REJECTED: _("Kept"),
    Action.HIDDEN: _("Hidden for now"),
    Action.SHOWN: _("Shown again"),
    Action.WARNED: _("Author warned"),
    Action.RESTORED: _("Restored"),
    Action.REPORT_DELETED: _("Report deleted"),
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
# What the services say, for the catalogue.
REFUSALS = (
    gettext_noop("This has been decided already."),
    gettext_noop("An appeal is accepted or rejected: the content is down as long as it waits."),
    gettext_noop("A moderator has hidden this already."),
    gettext_noop("This is not hidden."),
    gettext_noop("There is no such case."),
    gettext_noop("There is no such content."),
    gettext_noop("This was decided a moment ago: undo that decision to make another."),
    gettext_noop("This was decided a moment ago: look at it again, and decide anew in a minute."),
    gettext_noop("This decision can no longer be undone."),
    gettext_noop("Something was decided after it: undo that first."),
    gettext_noop("It was reported again since: decide about that."),
    gettext_noop("Only what a moderator took down, and nobody appealed against, can be restored."),
)


def refusal(error: object) -> str:
    return gettext(str(error))


def short_age(age: timedelta) -> str:
    """The largest unit alone: "3 days"."""
    minutes = int(age.total_seconds()) // 60
    if minutes < 60:
        return ngettext("%(count)d minute", "%(count)d minutes", minutes) % {"count": minutes}
    if (hours := minutes // 60) < 24:
        return ngettext("%(count)d hour", "%(count)d hours", hours) % {"count": hours}
    return ngettext("%(count)d day", "%(count)d days", hours // 24) % {"count": hours // 24}
