"""Statements of reasons for restrictions, with the fields of the EU's DSA transparency database, as CSV.

A statement names nobody: it has ids, codes, dates and counts, and no text of authors, reporters or moderators.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import chain, islice
from typing import Any

from django.db.models import QuerySet

from commerce.moderation.models import Appeal, Case, Decision, ReportReason, Sanction
from commerce.moderation.reportable_content import CONTENT_MODELS
from shared.api.csv_files import write_csv
from shared.querysets import pages_by_pk

MAX_STATEMENTS = 100_000  # in a file
Action = Decision.Action
RESTRICTIONS = (Action.ACCEPTED, Action.HIDDEN)
RESTRICTION_ENDS = (Action.SHOWN, Action.REJECTED, Action.RESTORED, Action.APPEAL_OVERTURNED)

VISIBILITY: Mapping[str, str] = {
    Action.ACCEPTED: "DECISION_VISIBILITY_CONTENT_REMOVED",
    Action.HIDDEN: "DECISION_VISIBILITY_CONTENT_DISABLED",
}
PROVISION: Mapping[str, str] = {
    Sanction.Kind.LIMIT: "DECISION_PROVISION_PARTIAL_SUSPENSION",
    Sanction.Kind.SUSPENSION: "DECISION_PROVISION_PARTIAL_SUSPENSION",
    Sanction.Kind.BAN: "DECISION_PROVISION_PARTIAL_TERMINATION",
}
ILLEGAL_REASON = "illegal"
DEFAULT_GROUND = "Rules of the shop for reviews and questions"
# Code of a reason -> category of the database. A reason that a shop added violates its terms.
CATEGORIES: Mapping[str, str] = {
    "harassment": "STATEMENT_CATEGORY_CYBER_VIOLENCE",
    "hate": "STATEMENT_CATEGORY_ILLEGAL_OR_HARMFUL_SPEECH",
    "illegal": "STATEMENT_CATEGORY_NOT_SPECIFIED_NOTICE",
    "fake": "STATEMENT_CATEGORY_SCAMS_AND_FRAUD",
    "personal_data": "STATEMENT_CATEGORY_DATA_PROTECTION_AND_PRIVACY_VIOLATIONS",
}
OTHER_CATEGORY = "STATEMENT_CATEGORY_OTHER_VIOLATION_TC"
# Content is taken down everywhere, so in all countries of the European Economic Area.
TERRITORIAL_SCOPE = (
    "AT", "BE", "BG", "CY", "CZ", "DE", "DK", "EE", "ES", "FI", "FR", "GR", "HR", "HU", "IE", "IS", "IT", "LI", "LT",
    "LU", "LV", "MT", "NL", "NO", "PL", "PT", "RO", "SE", "SI", "SK",
)  # fmt: skip
COLUMNS = (
    "puid", "decision_visibility", "end_date_visibility_restriction", "decision_provision",
    "end_date_service_restriction", "decision_ground", "illegal_content_legal_ground", "illegal_content_explanation",
    "incompatible_content_ground", "incompatible_content_explanation", "category", "report_reason", "decision_facts",
    "source_type", "automated_detection", "automated_decision", "content_type", "content_type_other",
    "content_language", "content_date", "territorial_scope", "application_date", "notices_count", "first_notice_date",
    "hours_to_decide", "appeal_outcome", "appeal_decision_date",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ReportingPeriod:
    """Days (UTC), both ends included."""

    first: date
    last: date

    @property
    def times(self) -> tuple[datetime, datetime]:
        """Return the midnight of the first day, and the midnight after the last one, which is excluded."""
        begin, end = (datetime.combine(day, time.min, tzinfo=UTC) for day in (self.first, self.last))
        return begin, end + timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class StatementOfReasons:
    """A restriction of content or of an author; `action` is an Action of RESTRICTIONS or a kind of sanction.

    `notices` counts the reports by the code of their reason, an empty one for reports without.
    """

    puid: str
    action: str
    applied_at: datetime
    ended_at: datetime | None = None
    reason: ReportReason | None = None
    notices: Mapping[str, int]
    first_notice_at: datetime | None = None
    is_automated: bool = False
    was_hidden_automatically: bool = False
    is_detected: bool = False
    content_types: Sequence[str]
    language: str = ""
    written_at: datetime | None = None
    appeal: str = ""
    appeal_decided_at: datetime | None = None

    @property
    def notices_count(self) -> int:
        return sum(self.notices.values())

    @property
    def time_to_decide(self) -> timedelta | None:
        return max(self.applied_at - self.first_notice_at, timedelta()) if self.first_notice_at else None

    @property
    def category(self) -> str:
        return category_of(self.reason)

    @property
    def is_illegal(self) -> bool:
        return self.reason is not None and self.reason.code == ILLEGAL_REASON

    @property
    def ground(self) -> str:
        """Return the rule or law that was relied on: the name of the reason, which the shop writes."""
        return self.reason.name if self.reason else DEFAULT_GROUND

    @property
    def explanation(self) -> str:
        who = "An automatic rule" if self.is_automated else "A moderator"
        what = "what the author wrote" if self.action in PROVISION else "the content"
        return f"{who} found {what} to be {'illegal' if self.is_illegal else 'against this rule'}: {self.ground}."

    @property
    def source(self) -> str:
        """Return the source type: notices of article 16 are about illegal content."""
        if not self.notices:
            return "SOURCE_VOLUNTARY"
        return "SOURCE_ARTICLE_16" if self.is_illegal else "SOURCE_TYPE_OTHER_NOTIFICATION"

    @property
    def automation(self) -> str:
        if self.is_automated:
            return "AUTOMATED_DECISION_FULLY"
        name = "PARTIALLY" if self.was_hidden_automatically else "NOT_AUTOMATED"
        return f"AUTOMATED_DECISION_{name}"

    @property
    def facts(self) -> str:
        """Return the facts that were relied on, as counts of notices."""
        if self.action in PROVISION:
            return "A moderator restricted the author after breaches of the rules of reviews and questions."
        counts = ", ".join(f"{code or 'without a reason'} {count}" for code, count in sorted(self.notices.items()))
        if self.is_detected:
            return "A rule of words, links or repetition held the content before it was public."
        found = f"Notices of users: {counts}." if counts else "A moderator found the content without a notice."
        automatic = " Enough notices of reliable users hid it automatically." if self.is_automated else ""
        return found + automatic


def category_of(reason: ReportReason | None) -> str:
    return CATEGORIES.get(reason.code, OTHER_CATEGORY) if reason else OTHER_CATEGORY


def newest_statements(period: ReportingPeriod, count: int) -> list[StatementOfReasons]:
    """Return the newest statements about content, newest first."""
    restrictions = _restrictions(period).order_by("-created_at", "-pk")
    return _statements_of_decisions(list(restrictions[:count]), _reasons())


def statements(period: ReportingPeriod) -> Iterator[StatementOfReasons]:
    """Yield at most MAX_STATEMENTS, those about content first; memory is that of one page of rows."""
    reasons = _reasons()
    about_content = (
        statement
        for page in pages_by_pk(_restrictions(period))
        for statement in _statements_of_decisions(page, reasons)
    )  # fmt: skip
    about_authors = (_statement_of_sanction(row) for page in pages_by_pk(restricting_sanctions(period)) for row in page)
    return islice(chain(about_content, about_authors), MAX_STATEMENTS)


def write_statements(period: ReportingPeriod) -> Iterator[bytes]:
    """Yield the statements of a period as a CSV file, in chunks."""
    return write_csv(COLUMNS, (_cells(statement) for statement in statements(period)))


def standing_decisions(period: ReportingPeriod) -> "QuerySet[Decision]":
    begin, end = period.times
    return Decision.objects.filter(created_at__gte=begin, created_at__lt=end, undone_at=None)


def _restrictions(period: ReportingPeriod) -> "QuerySet[Decision]":
    return standing_decisions(period).filter(action__in=RESTRICTIONS).select_related("case", "appeal")


def restricting_sanctions(period: ReportingPeriod) -> "QuerySet[Sanction]":
    """Return the sanctions that restrict an author: a warning does not."""
    begin, end = period.times
    return Sanction.objects.filter(created_at__gte=begin, created_at__lt=end, kind__in=PROVISION)


def _reasons() -> dict[int, ReportReason]:
    return ReportReason.objects.in_bulk()


def find_gravest_reason(
    records: Sequence[Mapping[str, Any]], reasons: Mapping[int, ReportReason]
) -> ReportReason | None:
    named = [reason for record in records if (reason := reasons.get(record.get("reason_id", 0)))]
    return max(named, key=lambda reason: reason.severity, default=None)


def find_first_notice(records: Sequence[Mapping[str, Any]]) -> datetime | None:
    return min((datetime.fromisoformat(record["created_at"]) for record in records), default=None)


def _statements_of_decisions(
    decisions: Sequence[Decision], reasons: Mapping[int, ReportReason]
) -> list[StatementOfReasons]:  # fmt: skip
    """Return the statements of these decisions, from three more queries for all of them."""
    written = {
        (kind, pk): at
        for kind, model in CONTENT_MODELS.items()
        for pk, at in model._default_manager.order_by()
        .filter(pk__in=[each.case.model_id for each in decisions if each.case.model_type == kind])
        .values_list("pk", "created_at")
    }
    ends: dict[int, list[datetime]] = {}
    cases = {decision.case_id for decision in decisions}
    later = Decision.objects.filter(case__in=cases, action__in=RESTRICTION_ENDS, undone_at=None).order_by("created_at")
    for case_id, at in later.values_list("case_id", "created_at"):
        ends.setdefault(case_id, []).append(at)
    return [
        _statement_of_decision(
            decision,
            reasons,
            written_at=written.get((decision.case.model_type, decision.case.model_id)),
            ended_at=next((at for at in ends.get(decision.case_id, ()) if at > decision.created_at), None),
        )
        for decision in decisions
    ]


def _statement_of_decision(
    decision: Decision,
    reasons: Mapping[int, ReportReason],
    *,
    written_at: datetime | None,
    ended_at: datetime | None,
) -> StatementOfReasons:
    appeal: Appeal | None = getattr(decision, "appeal", None)
    codes = (reasons[pk].code if (pk := each.get("reason_id")) in reasons else "" for each in decision.reports)
    return StatementOfReasons(
        puid=f"decision-{decision.pk}",
        action=decision.action,
        applied_at=decision.created_at,
        ended_at=ended_at,
        reason=find_gravest_reason(decision.reports, reasons),
        notices=Counter(codes),
        first_notice_at=find_first_notice(decision.reports),
        is_automated=decision.moderator_id is None,
        was_hidden_automatically=decision.before.get("hiding") in (Case.Hiding.AUTOMATIC, Case.Hiding.HELD),
        is_detected=not decision.reports and (not decision.moderator_id or decision.before.get("hiding") == "held"),
        content_types=["CONTENT_TYPE_TEXT", *["CONTENT_TYPE_IMAGE"][: len(decision.content.get("photos", ()))]],
        language=decision.case.language[:2].upper(),
        written_at=written_at,
        appeal=appeal.status if appeal else "",
        appeal_decided_at=appeal.decided_at if appeal else None,
    )


def _statement_of_sanction(sanction: Sanction) -> StatementOfReasons:
    return StatementOfReasons(
        puid=f"sanction-{sanction.pk}",
        action=sanction.kind,
        applied_at=sanction.created_at,
        ended_at=sanction.lifted_at or sanction.ends_at,
        notices={},
        content_types=["CONTENT_TYPE_OTHER"],
        appeal=sanction.appeal,
    )


def _cells(statement: StatementOfReasons) -> list[str]:
    is_about_content = statement.action in VISIBILITY
    ended_on = _day(statement.ended_at)
    waited = statement.time_to_decide
    grounds = (statement.ground, statement.explanation)
    return [
        statement.puid,
        VISIBILITY.get(statement.action, ""),
        ended_on if is_about_content else "",
        PROVISION.get(statement.action, ""),
        "" if is_about_content else ended_on,
        f"DECISION_GROUND_{'ILLEGAL' if statement.is_illegal else 'INCOMPATIBLE'}_CONTENT",
        *(grounds if statement.is_illegal else ("", "")),
        *(("", "") if statement.is_illegal else grounds),
        statement.category,
        statement.reason.code if statement.reason else "",
        statement.facts,
        statement.source,
        "Yes" if statement.is_detected else "No",
        statement.automation,
        json.dumps(statement.content_types),
        "" if is_about_content else "The account of an author",
        statement.language,
        _day(statement.written_at),
        json.dumps(TERRITORIAL_SCOPE),
        _day(statement.applied_at),
        str(statement.notices_count),
        _day(statement.first_notice_at),
        f"{waited.total_seconds() / 3600:.1f}" if waited is not None else "",
        statement.appeal,
        _day(statement.appeal_decided_at),
    ]


def _day(at: datetime | None) -> str:
    return at.astimezone(UTC).date().isoformat() if at else ""
