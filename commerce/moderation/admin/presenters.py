"""Presenters of the moderators' pages: cases with their content, and the buttons for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.functional import Promise, cached_property
from django.utils.translation import gettext_lazy as _

from commerce.attachments.serializers import attachment_record
from commerce.moderation.labels import KINDS, STATES
from commerce.moderation.models import Case, Decision, ReportReason
from commerce.moderation.queue.listing import CaseFile, QueueItem
from commerce.reviews.models import Review
from shared.accounts.models import User
from shared.accounts.roles import Role

Action = Decision.Action
Text = str | Promise
STARS = 5
Severity = ReportReason.Severity
SEVERITY_TONES: Mapping[int, str] = {Severity.MEDIUM: "info", Severity.HIGH: "warning", Severity.CRITICAL: "danger"}


@dataclass(frozen=True, kw_only=True)
class Button:
    """An action, and the key that triggers it."""

    action: str
    text: Text
    key: str
    tone: str = "plain"


@dataclass(frozen=True)
class QueueRow:
    """A row of the list."""

    item: QueueItem
    viewer: User

    @property
    def case(self) -> Case:
        return self.item.case

    @property
    def kind(self) -> Text:
        return KINDS[self.case.model_type]

    @property
    def state(self) -> Text:
        return STATES[self.case.state]

    @property
    def rating(self) -> int | None:
        return getattr(self.item.content, "rating", None)

    @property
    def severity(self) -> Text:
        return ReportReason.Severity(self.case.severity).label if self.case.severity else ""

    @property
    def is_overdue(self) -> bool:
        return bool(self.case.is_waiting and self.case.due_at and self.case.due_at <= self.item.read_at)

    @property
    def stars(self) -> str:
        return "★" * (self.rating or 0) + "☆" * (STARS - (self.rating or 0))

    @cached_property
    def product_picture(self) -> dict[str, Any] | None:
        image = self.item.content.product.image
        return attachment_record(image) if image else None

    @cached_property
    def photos(self) -> list[dict[str, Any]]:
        content = self.item.content
        return [attachment_record(photo) for photo in content.photos.all()] if isinstance(content, Review) else []

    @property
    def other(self) -> User | None:
        """Return another moderator who has it open now."""
        claimant = self.item.claimant
        return claimant if claimant != self.viewer else None

    @property
    def badges(self) -> Sequence[tuple[Text, str]]:
        """Return the labels of the case with their colours."""
        case = self.case
        shown: list[tuple[bool, tuple[Text, str]]] = [
            (case.state == Case.State.APPEALED, (_("Appealed"), "info")),
            (case.hiding == Case.Hiding.AUTOMATIC, (_("Hidden automatically"), "warning")),
            (case.hiding == Case.Hiding.HELD, (_("Held by a rule"), "warning")),
            (case.hiding == Case.Hiding.MODERATOR, (_("Hidden by a moderator"), "plain")),
            (case.is_escalated, (_("Escalated"), "danger")),
            (case.is_brigaded, (_("Brigading?"), "danger")),
            (bool(case.reason), (str(case.reason), SEVERITY_TONES.get(case.severity, "plain"))),
            (self.is_overdue, (_("Overdue"), "danger")),
            (self.item.alike > 1, (_("%(count)d alike") % {"count": self.item.alike}, "plain")),
        ]
        return [badge for is_so, badge in shown if is_so]


@dataclass(frozen=True, kw_only=True)
class ItemDetails:
    """The page of one case."""

    row: QueueRow
    file: CaseFile
    now: datetime

    @property
    def is_appealed(self) -> bool:
        return self.row.case.state == Case.State.APPEALED

    @property
    def buttons(self) -> list[Button]:
        case, is_super_admin = self.row.case, self.row.viewer.role == Role.SUPER_ADMIN
        if case.is_escalated and not is_super_admin:
            return []
        escalate = [] if is_super_admin else [Button(action=Action.ESCALATED, text=_("Escalate"), key="e")]
        if self.is_appealed:
            return [
                Button(action=Action.ACCEPTED, text=_("Keep it down"), key="a", tone="danger"),
                Button(action=Action.REJECTED, text=_("Bring it back"), key="r", tone="success"),
                *escalate,
            ]
        if case.is_waiting:
            return [*_open_buttons(case), *escalate]
        if case.state == Case.State.ACCEPTED and not self.file.undoable:
            return [Button(action=Action.RESTORED, text=_("Restore"), key="r", tone="success")]
        return []


def _open_buttons(case: Case) -> list[Button]:
    hide = Button(action=Action.HIDDEN, text=_("Hide for now"), key="h")
    show = Button(action=Action.SHOWN, text=_("Show again"), key="s")
    return [
        Button(action=Action.ACCEPTED, text=_("Accept: take down"), key="a", tone="danger"),
        Button(action=Action.REJECTED, text=_("Reject: keep"), key="r", tone="success"),
        *([hide] if case.hiding in (Case.Hiding.NONE, Case.Hiding.AUTOMATIC) else []),
        *([show] if case.hiding in (Case.Hiding.AUTOMATIC, Case.Hiding.MODERATOR) else []),
        Button(action=Action.WARNED, text=_("Warn the author"), key="w"),
    ]
