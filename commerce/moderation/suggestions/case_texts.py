"""Texts of cases that are compared: as they are if a case waits, else as they were at its decision.

Also features of them that an embedding does not tell.
"""

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from commerce.moderation.models import AbuseReport, Appeal, Case, Decision, ReportReason
from commerce.moderation.reportable_content import CONTENT_MODELS, Reportable
from commerce.reviews.models import Review
from shared.accounts.models import User
from shared.accounts.personal_data.erasure import ERASED_EMAIL_DOMAIN

MAX_REPORTS = 10
LINK_MARKS = ("http:", "https:", "www.", ".com", ".net", ".org", ".example", " dot ", "t.me/", "@")
MIN_PHONE_DIGITS = 7
FIRST_SYMBOL = 0x2190  # arrows, symbols, emoji


@dataclass(frozen=True, kw_only=True)
class CaseText:
    """The texts of a case, and the reason that most of its reports have."""

    case: Case
    content: str
    reports: str
    rating: int | None
    reason_id: int | None

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.content, self.reports, self.rating)


def read_case_texts(case_ids: Sequence[int]) -> list[CaseText]:
    """Return the texts of these cases, without the reports of people who were erased since."""
    cases = Case.objects.filter(pk__in=case_ids).select_related("last_decision")
    reason_ids = set(ReportReason.objects.values_list("pk", flat=True))  # a deleted one may be in a record
    open_cases = [case for case in cases if case.is_waiting]
    decided = [case for case in cases if not case.is_waiting]
    return [*_open_texts(open_cases, reason_ids), *_decided_texts(decided, reason_ids)]


def _open_texts(cases: Sequence[Case], reason_ids: set[int]) -> list[CaseText]:
    contents = {
        kind: model._default_manager.in_bulk([case.model_id for case in cases if case.model_type == kind])
        for kind, model in CONTENT_MODELS.items()
    }
    reports = defaultdict(list)
    rows = AbuseReport.objects.filter(model_id__in=[case.model_id for case in cases], status=AbuseReport.Status.OPEN)
    for report in rows.order_by("-id"):
        reports[report.model_type, report.model_id].append(report)
    texts = []
    for case in cases:
        content = contents[case.model_type][case.model_id]
        own = reports[case.model_type, case.model_id]
        texts.append(
            CaseText(
                case=case,
                content=content_text(content),
                reports=reports_text([report.message for report in own]),
                rating=content_rating(content),
                reason_id=_commonest((report.reason_id for report in own), reason_ids),
            )
        )
    return texts


def _decided_texts(cases: Sequence[Case], reason_ids: set[int]) -> list[CaseText]:
    decisions = {case: case.last_decision for case in cases if case.last_decision}
    kept = [decision for decision in decisions.values() if decision.action == Decision.Action.APPEAL_KEPT]
    appeals = Appeal.objects.filter(result__in=kept).select_related("decision") if kept else Appeal.objects.none()
    removals = {appeal.result_id: appeal.decision for appeal in appeals}
    judged = {case: removals.get(decision.pk, decision) for case, decision in decisions.items()}
    erased = _erased_reporters(judged.values())
    texts = []
    for case, decision in judged.items():
        records = sorted(decision.reports, key=lambda record: -record["id"])
        messages = ["" if record.get("user_id") in erased else record["message"] for record in records]
        texts.append(
            CaseText(
                case=case,
                content=_normalized(decision.text),
                reports=reports_text(messages),
                rating=decision.content.get("rating"),
                reason_id=_commonest((record.get("reason_id") for record in records), reason_ids),
            )
        )
    return texts


def _erased_reporters(decisions: Iterable[Decision]) -> set[int]:
    records: list[Mapping[str, Any]] = [record for decision in decisions for record in decision.reports]
    user_ids = {record["user_id"] for record in records if record.get("user_id")}
    erased = User.objects.filter(pk__in=user_ids, email__endswith=ERASED_EMAIL_DOMAIN)
    return set(erased.values_list("pk", flat=True)) if user_ids else set()


def _commonest(reason_ids: Iterable[int | None], existing: set[int]) -> int | None:
    counts = Counter(pk for pk in reason_ids if pk in existing)
    return counts.most_common(1)[0][0] if counts else None


def content_text(content: Reportable) -> str:
    """Return the text of a review or question, without the shop's answer."""
    return _normalized(content.text)


def content_rating(content: Reportable) -> int | None:
    return content.rating if isinstance(content, Review) else None


def reports_text(messages: Sequence[str]) -> str:
    """Return the messages of reports, the newest first, as one text."""
    return _normalized("\n".join(messages[:MAX_REPORTS]))


def fingerprint_of(content: str, reports: str, rating: int | None = None) -> str:
    """Return a hash that changes with either text and with the rating."""
    return hashlib.blake2b(f"{content}\0{reports}\0{rating}".encode(), digest_size=16).hexdigest()


def text_features(text: str) -> list[float]:
    """Return numbers from 0 to about 1: link, telephone number, length, capitals, question, symbols."""
    lower = text.lower()
    return [
        float(any(mark in lower for mark in LINK_MARKS)),
        float(sum(map(str.isdigit, text)) >= MIN_PHONE_DIGITS),
        math.log1p(len(text)) / 5,
        sum(map(str.isupper, text)) / max(len(text), 1),
        float("?" in text),
        float(any(ord(character) >= FIRST_SYMBOL for character in text)),
    ]


def _normalized(text: str) -> str:
    return " ".join(text.split())
