"""Presenters of the moderators' pages: cases with their content, and the buttons for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from commerce.attachments.models import Attachment
from commerce.attachments.records import attachment_record
from commerce.moderation.admin.labels import ACTIONS, KINDS, STANDINGS, STATES, reason_name
from commerce.moderation.models import Case, Decision, ReportReason
from commerce.moderation.queue.listing import CaseFile, CaseReport, QueueItem
from commerce.moderation.trust import WEIGHT_SCALE
from commerce.reviews.models import Review
from shared.accounts.models import User
from shared.accounts.roles import Role

Action = Decision.Action
Text = str | Promise
STARS = 5
Severity = ReportReason.Severity
SEVERITY_TONES: Mapping[int, str] = {Severity.MEDIUM: "info", Severity.HIGH: "warning", Severity.CRITICAL: "danger"}


@dataclass(frozen=True, kw_only=True)
class Picture:
    url: str
    full_url: str


@dataclass(frozen=True, kw_only=True)
class Badge:
    """A label of a case; `tone` is its colour."""

    text: Text
    tone: str


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

    @cached_property
    def text(self) -> str:
        content = self.item.content
        return content.comment if isinstance(content, Review) else content.question

    @cached_property
    def answer(self) -> str:
        content = self.item.content
        return "" if isinstance(content, Review) else content.answer

    @property
    def rating(self) -> int | None:
        content = self.item.content
        return content.rating if isinstance(content, Review) else None

    @property
    def reason(self) -> str:
        """Return the name of the most severe reason of the open reports, or an empty string."""
        return reason_name(self.case.reason) if self.case.reason else ""

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
    def product_picture(self) -> Picture | None:
        image = self.item.content.product.image
        return make_picture(image) if image else None

    @cached_property
    def photos(self) -> list[Picture]:
        content = self.item.content
        return [make_picture(photo) for photo in content.photos.all()] if isinstance(content, Review) else []

    @property
    def other(self) -> User | None:
        """Return another moderator who has it open now."""
        claimant = self.item.claimant
        return claimant if claimant != self.viewer else None

    @property
    def badges(self) -> Sequence[Badge]:
        case = self.case
        shown = [
            (case.state == Case.State.APPEALED, Badge(text=_("Appealed"), tone="info")),
            (case.hiding == Case.Hiding.AUTOMATIC, Badge(text=_("Hidden automatically"), tone="warning")),
            (case.hiding == Case.Hiding.HELD, Badge(text=_("Held by a rule"), tone="warning")),
            (case.hiding == Case.Hiding.MODERATOR, Badge(text=_("Hidden by a moderator"), tone="plain")),
            (case.is_escalated, Badge(text=_("Escalated"), tone="danger")),
            (case.is_brigaded, Badge(text=_("Brigading?"), tone="danger")),
            (bool(case.reason), Badge(text=self.reason, tone=SEVERITY_TONES.get(case.severity, "plain"))),
            (self.is_overdue, Badge(text=_("Overdue"), tone="danger")),
            (self.item.alike > 1, Badge(text=_("%(count)d alike") % {"count": self.item.alike}, tone="plain")),
        ]
        return [badge for is_so, badge in shown if is_so]


@dataclass(frozen=True)
class ReporterLine:
    """A report with the record of its reporter."""

    line: CaseReport

    @property
    def weight(self) -> int:
        """Return the weight in percent."""
        return self.line.reporter.weight * 100 // WEIGHT_SCALE

    @property
    def reason(self) -> str:
        reason = self.line.report.reason
        return reason_name(reason) if reason else ""

    @property
    def decided(self) -> int:
        return self.line.reporter.agreed + self.line.reporter.disagreed

    @property
    def standing(self) -> Text:
        return STANDINGS[self.line.report.standing]


@dataclass(frozen=True)
class DecisionLine:
    """A decision with its label."""

    decision: Decision

    @property
    def text(self) -> Text:
        return ACTIONS[self.decision.action]


@dataclass(frozen=True, kw_only=True)
class ItemDetails:
    """The page of one case."""

    row: QueueRow
    file: CaseFile
    now: datetime

    @property
    def reports(self) -> list[ReporterLine]:
        return [ReporterLine(line) for line in self.file.reports]

    @property
    def counted(self) -> list[ReporterLine]:
        """Return the reports that count for automatic hiding."""
        return [line for line in self.reports if line.line.counts]

    @property
    def decisions(self) -> list[DecisionLine]:
        return [DecisionLine(decision) for decision in self.file.decisions]

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


def make_picture(attachment: Attachment) -> Picture:
    record = attachment_record(attachment)
    return Picture(url=record.get("thumbnail", record["original"]), full_url=record["original"])
