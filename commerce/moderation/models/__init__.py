"""Models of moderation: reports, the cases they open, decisions, notices and appeals."""

from commerce.moderation.models.appeals import Appeal, AppealQuerySet
from commerce.moderation.models.cases import Case, CaseQuerySet
from commerce.moderation.models.decisions import Decision
from commerce.moderation.models.holding_rules import HoldingRule
from commerce.moderation.models.notices import Notice, NoticeQuerySet
from commerce.moderation.models.reasons import DecisionTemplate, ReportReason
from commerce.moderation.models.reports import AbuseReport, ContentKind, Reporter, ReportQuerySet
from commerce.moderation.models.sanctions import Sanction, SanctionQuerySet
from commerce.moderation.models.second_looks import SecondLook, SecondLookQuerySet
from commerce.moderation.models.suggestions import CaseVector, DecisionSuggestion, SuggestionModel

__all__ = [
    "AbuseReport",
    "Appeal",
    "AppealQuerySet",
    "Case",
    "CaseQuerySet",
    "CaseVector",
    "ContentKind",
    "Decision",
    "DecisionSuggestion",
    "DecisionTemplate",
    "HoldingRule",
    "Notice",
    "NoticeQuerySet",
    "ReportQuerySet",
    "ReportReason",
    "Reporter",
    "Sanction",
    "SanctionQuerySet",
    "SecondLook",
    "SecondLookQuerySet",
    "SuggestionModel",
]
