"""Sanctions of authors: imposed, appealed, kept and lifted by moderators, and checked before a user writes."""

from datetime import datetime, timedelta

from django.db import transaction

from commerce.moderation.decisions import Conflict
from commerce.moderation.models import AbuseReport, Notice, Sanction
from commerce.reviews.models import Question, Review
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError, NotFound, ValidationFailed
from shared.audit.services import record_audit_entry

Kind = Sanction.Kind
TIMED_KINDS = frozenset({Kind.LIMIT, Kind.SUSPENSION})
MAX_DAYS = 365
MAX_LIMITED_WRITES = 3  # reviews, questions and reports of a limited user in LIMIT_WINDOW
LIMIT_WINDOW = timedelta(days=1)
NOTICE_TITLES = {
    Kind.WARNING: "A warning from the moderators",
    Kind.LIMIT: "You may write less for a while",
    Kind.SUSPENSION: "You may not write for a while",
    Kind.BAN: "You may not write any more",
}
CONSEQUENCES = {
    Kind.WARNING: "You may go on writing. Another incident may have consequences.",
    Kind.LIMIT: f"You may write {MAX_LIMITED_WRITES} reviews, questions and reports a day until {{until}}.",
    Kind.SUSPENSION: "You may not write reviews, questions and reports until {until}.",
    Kind.BAN: "You may not write reviews, questions and reports, without an end.",
}
APPEAL_OFFER = "If you think that this is wrong, you can appeal once."
SEVERITY = (Kind.BAN, Kind.SUSPENSION, Kind.LIMIT)


@transaction.atomic
def impose_sanction(
    *, user_id: int, kind: str, reason: str, moderator: User, days: int | None = None, note: str = "", now: datetime
) -> Sanction:
    """Sanction a user and send the reason to them.

    Raises ValidationFailed for an unknown user, for oneself and for `days` that do not fit the kind, ApiError 403 for
    a super admin and, unless the moderator is one, another moderator, and Conflict while the same kind is in force.
    """
    user = User.objects.select_for_update().filter(pk=user_id).first()
    if user is None:
        raise ValidationFailed({"user_id": ["There is no user with this id."]})
    if user == moderator:
        raise ValidationFailed({"user_id": ["You cannot sanction yourself."]})
    if user.role == Role.SUPER_ADMIN:
        raise ApiError(403, "A super admin cannot be sanctioned.")
    if user.role == Role.MODERATOR and moderator.role != Role.SUPER_ADMIN:
        raise ApiError(403, "Only a super admin can sanction a moderator.")
    _check_days(kind, days)
    ends_at = now + timedelta(days=days) if days is not None else None
    in_force = Sanction.objects.for_user(user).in_force(now).filter(kind=kind).exclude(kind=Kind.WARNING).first()
    if in_force is not None:
        raise Conflict(f"This user has the same sanction {_describe_end(in_force)}: lift it first.")
    sanction = Sanction.objects.create(
        user=user, kind=kind, reason=reason, note=note, moderator=moderator, created_at=now, ends_at=ends_at
    )
    text = f"{reason}\n\n{_consequence(sanction)}\n\n{APPEAL_OFFER}"
    _create_notice(sanction, NOTICE_TITLES[Kind(kind)], text, now)
    _log("imposed", sanction, moderator, now)
    return sanction


@transaction.atomic
def lift_sanction(*, sanction_id: int, moderator: User, now: datetime) -> Sanction:
    """End a sanction now and tell the user; an open appeal against it is overturned.

    Raises NotFound, Conflict, and ApiError 403 as `_check_moderator` does.
    """
    sanction = _lock(sanction_id)
    _check_moderator(sanction, moderator)
    if not sanction.is_in_force(now):
        raise Conflict("This sanction is not in force any more.")
    sanction.lifted_at, sanction.lifted_by = now, moderator
    if sanction.appeal == Sanction.AppealState.OPEN:
        sanction.appeal = Sanction.AppealState.OVERTURNED
    sanction.save()
    text = f"A moderator has lifted what was decided about your account for this reason:\n\n{sanction.reason}"
    _create_notice(sanction, "Your sanction was lifted", text, now)
    _log("lifted", sanction, moderator, now)
    return sanction


@transaction.atomic
def appeal_sanction(*, sanction_id: int, user: User, message: str, now: datetime) -> Sanction:
    """Appeal against one's own sanction, once. Raises NotFound for another user's and Conflict."""
    sanction = _lock(sanction_id)
    if sanction.user_id != user.pk:
        raise NotFound
    if sanction.appeal:
        raise Conflict("You have appealed against this already.")
    if not sanction.is_in_force(now):
        raise Conflict("This sanction is not in force any more.")
    sanction.appeal, sanction.appeal_message, sanction.appealed_at = Sanction.AppealState.OPEN, message, now
    sanction.save()
    _log("appealed", sanction, user, now)
    return sanction


@transaction.atomic
def keep_sanction(*, sanction_id: int, moderator: User, now: datetime) -> Sanction:
    """Decide an appeal and tell the user: the sanction stays.

    Raises NotFound, Conflict without an open appeal, and ApiError 403 as `_check_moderator` does.
    """
    sanction = _lock(sanction_id)
    _check_moderator(sanction, moderator)
    if sanction.appeal != Sanction.AppealState.OPEN:
        raise Conflict("There is no open appeal against this sanction.")
    sanction.appeal = Sanction.AppealState.KEPT
    sanction.save()
    text = f"We have read your appeal: the decision about your account stays.\n\n{_consequence(sanction)}"
    _create_notice(sanction, "Your sanction stays", text, now)
    _log("kept", sanction, moderator, now)
    return sanction


def check_may_write(*, user: User, now: datetime) -> None:
    """Raise ApiError 403, which says until when, if a sanction forbids the user to write now."""
    sanctions = {sanction.kind: sanction for sanction in Sanction.objects.for_user(user).in_force(now).order_by("id")}
    sanction = next((sanctions[kind] for kind in SEVERITY if kind in sanctions), None)
    if sanction is None or (sanction.kind == Kind.LIMIT and _recent_writes(user, now) < MAX_LIMITED_WRITES):
        return
    raise ApiError(403, f"{_consequence(sanction)} {sanction.reason}", code="sanctioned")


def _recent_writes(user: User, now: datetime) -> int:
    since = now - LIMIT_WINDOW
    return sum(
        model._default_manager.filter(user=user, created_at__gt=since).count()
        for model in (Review, Question, AbuseReport)
    )


def _check_days(kind: str, days: int | None) -> None:
    if kind in TIMED_KINDS and (days is None or not 1 <= days <= MAX_DAYS):
        raise ValidationFailed({"days": [f"Send a number of days from 1 to {MAX_DAYS}."]})
    if kind not in TIMED_KINDS and days is not None:
        raise ValidationFailed({"days": ["Only a limit and a suspension end after days: leave this out."]})


def _check_moderator(sanction: Sanction, moderator: User) -> None:
    if sanction.user_id == moderator.pk:
        raise ApiError(403, "You cannot decide about your own sanction.")
    if sanction.user.role == Role.MODERATOR and moderator.role != Role.SUPER_ADMIN:
        raise ApiError(403, "Only a super admin can decide about a moderator's sanction.")


def _lock(sanction_id: int) -> Sanction:
    sanction = Sanction.objects.select_for_update(of=("self",)).filter(pk=sanction_id).first()
    if sanction is None:
        raise NotFound
    return sanction


def _until(sanction: Sanction) -> str:
    return f"{sanction.ends_at:%d %B %Y %H:%M} UTC" if sanction.ends_at else ""


def _describe_end(sanction: Sanction) -> str:
    return f"until {_until(sanction)}" if sanction.ends_at else "without an end"


def _consequence(sanction: Sanction) -> str:
    return CONSEQUENCES[Kind(sanction.kind)].format(until=_until(sanction))


def _create_notice(sanction: Sanction, title: str, text: str, now: datetime) -> None:
    Notice.objects.create(
        user_id=sanction.user_id,
        sanction=sanction,
        kind=Notice.Kind.SANCTION,
        title=title,
        text=text,
        due_at=now,
        mail_due_at=now,
    )


def _log(event: str, sanction: Sanction, actor: User, now: datetime) -> None:
    record_audit_entry(
        action=f"moderation.sanction_{event}",
        actor=actor,
        target_type="Sanction",
        target_id=sanction.pk,
        details={
            "user_id": sanction.user_id,
            "kind": sanction.kind,
            "reason": sanction.reason,
            "note": sanction.note,
            "ends_at": sanction.ends_at.isoformat() if sanction.ends_at else None,
        },
        now=now,
    )
