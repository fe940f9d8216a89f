"""Create the notices of a decision, in the decision's transaction."""

from collections.abc import Mapping

from django.conf import settings
from django.utils.text import Truncator

from commerce.moderation.models import Decision, Notice
from commerce.reviews.models import Question, Review

MAX_QUOTE_LENGTH = 500
DEFAULT_REASON = "It breaks the rules of this shop."

TITLES: Mapping[str, str] = {
    Notice.Kind.CONTENT_REMOVED: "We have removed your {thing}",
    Notice.Kind.CONTENT_RESTORED: "Your {thing} was restored",
    Notice.Kind.WARNING: "A warning about your {thing}",
    Notice.Kind.REPORT_ACCEPTED: "The content you reported was removed",
    Notice.Kind.REPORT_REJECTED: "The content you reported was kept",
    Notice.Kind.APPEAL_KEPT: "Your {thing} stays removed",
}
TEXTS: Mapping[str, str] = {
    Notice.Kind.CONTENT_REMOVED: "A moderator has removed your {thing} of {product}. {reason}\n\nYou wrote:\n\n{quote}"
    "\n\nIf you think that this is wrong, you can appeal once, until {appeal_until:%d %B %Y}. A moderator will "
    "review it again.",
    Notice.Kind.CONTENT_RESTORED: "Your {thing} of {product} was removed and is now restored. We are sorry. {reason}",
    Notice.Kind.WARNING: "A moderator has reviewed your {thing} of {product} and kept it, with a warning. {reason}\n\n"
    "You wrote:\n\n{quote}",
    Notice.Kind.REPORT_ACCEPTED: "Thank you. You reported a {thing} of {product}. A moderator has removed it. {reason}",
    Notice.Kind.REPORT_REJECTED: "You reported a {thing} of {product}. A moderator has reviewed it and kept "
    "it. {reason}",
    Notice.Kind.APPEAL_KEPT: "We have reviewed your appeal: your {thing} of {product} stays removed. {reason}",
}
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
    if kind := AUTHOR_NOTICES.get(decision.action):
        notices.append(_notice(kind, decision, content, decision.author_id))
    if kind := REPORTER_NOTICES.get(decision.action):
        user_ids = sorted({report["user_id"] for report in decision.reports})
        notices += [_notice(kind, decision, content, user_id) for user_id in user_ids]
    Notice.objects.bulk_create(notices)


def _notice(kind: str, decision: Decision, content: Review | Question, user_id: int) -> Notice:
    is_removal = kind == Notice.Kind.CONTENT_REMOVED
    appeal_until = decision.undo_until + settings.MODERATION_APPEAL_WINDOW if is_removal else None
    text = content.comment if isinstance(content, Review) else content.question
    values = {
        "thing": "review" if isinstance(content, Review) else "question",
        "product": content.product.name,
        "reason": decision.reason or (DEFAULT_REASON if kind in NEEDS_REASON else ""),
        "quote": Truncator(text).chars(MAX_QUOTE_LENGTH) or "(only stars)",
        "appeal_until": appeal_until,
    }
    return Notice(
        user_id=user_id,
        decision=decision,
        kind=kind,
        title=TITLES[kind].format(**values),
        text=TEXTS[kind].format(**values).strip(),
        due_at=decision.undo_until,
        mail_due_at=decision.undo_until,
        appeal_until=appeal_until,
    )
