"""Create the notices of a decision, in the decision's transaction."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.conf import settings
from django.utils.text import Truncator

from commerce.moderation.models import Case, Decision, Notice
from commerce.reviews.models import Question, Review

MAX_QUOTE_LENGTH = 500
# Writing what a rule holds sends at most one e-mail in this time, so that nobody fills a mailbox with it.
HELD_MAIL_INTERVAL = timedelta(days=1)
DEFAULT_REASON = "It breaks the rules of this shop."
QUOTE_START = "\n\nYou wrote:\n\n"

TITLES: Mapping[str, str] = {
    Notice.Kind.CONTENT_HELD: "Your {thing} waits for a moderator",
    Notice.Kind.CONTENT_PUBLISHED: "Your {thing} is public now",
    Notice.Kind.CONTENT_REMOVED: "We have removed your {thing}",
    Notice.Kind.CONTENT_RESTORED: "Your {thing} was restored",
    Notice.Kind.WARNING: "A warning about your {thing}",
    Notice.Kind.REPORT_ACCEPTED: "The content you reported was removed",
    Notice.Kind.REPORT_REJECTED: "The content you reported was kept",
    Notice.Kind.APPEAL_KEPT: "Your {thing} stays removed",
}
TEXTS: Mapping[str, str] = {
    Notice.Kind.CONTENT_HELD: "Your {thing} of {product} is not public yet. A moderator will read it first, and you "
    "will receive the decision." + QUOTE_START + "{quote}",
    Notice.Kind.CONTENT_PUBLISHED: "A moderator has read your {thing} of {product}. It is public now. {reason}",
    Notice.Kind.CONTENT_REMOVED: "A moderator has removed your {thing} of {product}. {reason}" + QUOTE_START + "{quote}"
    "\n\nIf you think that this is wrong, you can appeal once, until {appeal_until:%d %B %Y}. A moderator will "
    "review it again.",
    Notice.Kind.CONTENT_RESTORED: "Your {thing} of {product} was removed and is now restored. We are sorry. {reason}",
    Notice.Kind.WARNING: "A moderator has reviewed your {thing} of {product} and kept it, with a warning. {reason}"
    + QUOTE_START
    + "{quote}",
    Notice.Kind.REPORT_ACCEPTED: "Thank you. You reported a {thing} of {product}. A moderator has removed it. {reason}",
    Notice.Kind.REPORT_REJECTED: "You reported a {thing} of {product}. A moderator has reviewed it and kept "
    "it. {reason}",
    Notice.Kind.APPEAL_KEPT: "We have reviewed your appeal: your {thing} of {product} stays removed. {reason}",
}
# A later decision may publish the content before this notice is due.
WARNING_ABOUT_HIDDEN = (
    "A moderator has read your {thing} of {product} and sends you a warning. Whether it is public is decided "
    "separately. {reason}" + QUOTE_START + "{quote}"
)
NEEDS_REASON = frozenset({Notice.Kind.CONTENT_REMOVED, Notice.Kind.WARNING, Notice.Kind.APPEAL_KEPT})
Action = Decision.Action
AUTHOR_NOTICES: Mapping[str, str] = {
    Action.ACCEPTED: Notice.Kind.CONTENT_REMOVED,
    Action.WARNED: Notice.Kind.WARNING,
    Action.RESTORED: Notice.Kind.CONTENT_RESTORED,
    Action.APPEAL_OVERTURNED: Notice.Kind.CONTENT_RESTORED,
    Action.APPEAL_KEPT: Notice.Kind.APPEAL_KEPT,
}
REPORTER_NOTICES: Mapping[str, str] = {
    Action.ACCEPTED: Notice.Kind.REPORT_ACCEPTED,
    Action.REJECTED: Notice.Kind.REPORT_REJECTED,
}


def create_notices(decision: Decision, content: Review | Question) -> None:
    """Create the notices to the author and the reporters, in the decision's transaction."""
    notices = []
    if kind := _author_notice(decision, content):
        notices.append(_notice(kind, decision, content, decision.author_id))
    if kind := REPORTER_NOTICES.get(decision.action):
        user_ids = sorted({report["user_id"] for report in decision.reports})
        notices += [_notice(kind, decision, content, user_id) for user_id in user_ids]
    Notice.objects.bulk_create(notices)


def _author_notice(decision: Decision, content: Review | Question) -> str | None:
    """Return the kind of the notice to the author, who also learns that content is held, and when it becomes public."""
    was_held = decision.before["hiding"] == Case.Hiding.HELD
    if decision.case.hiding == Case.Hiding.HELD and not was_held:
        return Notice.Kind.CONTENT_HELD
    if was_held and content.is_visible:
        return Notice.Kind.CONTENT_PUBLISHED
    return AUTHOR_NOTICES.get(decision.action)


def _notice(kind: str, decision: Decision, content: Review | Question, user_id: int) -> Notice:
    is_removal = kind == Notice.Kind.CONTENT_REMOVED
    appeal_until = decision.undo_until + settings.MODERATION_APPEAL_WINDOW if is_removal else None
    template = WARNING_ABOUT_HIDDEN if kind == Notice.Kind.WARNING and content.hidden_at else TEXTS[kind]
    values = {
        "thing": "review" if isinstance(content, Review) else "question",
        "product": content.product.name,
        "reason": decision.reason or (DEFAULT_REASON if kind in NEEDS_REASON else ""),
        "quote": Truncator(content.text).chars(MAX_QUOTE_LENGTH) or "(only stars)",
        "appeal_until": appeal_until,
    }
    return Notice(
        user_id=user_id,
        decision=decision,
        kind=kind,
        title=TITLES[kind].format(**values),
        text=template.format(**values).strip(),
        due_at=decision.undo_until,
        mail_due_at=_mail_due_at(kind, decision.undo_until, user_id),
        appeal_until=appeal_until,
    )


def _mail_due_at(kind: str, due_at: datetime, user_id: int) -> datetime | None:
    """Return the time of the e-mail, or None for a notice that is in the API only."""
    if kind != Notice.Kind.CONTENT_HELD:
        return due_at
    earlier = Notice.objects.filter(user_id=user_id, kind=kind, due_at__gt=due_at - HELD_MAIL_INTERVAL)
    return None if earlier.exclude(mail_due_at=None, mailed_at=None).exists() else due_at
