"""Models of moderation: reports, the cases they open, decisions, notices and appeals."""

from commerce.moderation.models.cases import Case
from commerce.moderation.models.decisions import Appeal, Decision, SecondLook
from commerce.moderation.models.holding_rules import HoldingRule
from commerce.moderation.models.notices import Notice
from commerce.moderation.models.reasons import DecisionTemplate, ReportReason
from commerce.moderation.models.reports import AbuseReport, ContentKind, Reporter, ReportQuerySet
from commerce.moderation.models.sanctions import Sanction
from commerce.moderation.models.suggestions import CaseVector, DecisionSuggestion, SuggestionModel

__all__ = [
    "AbuseReport",
    "Appeal",
    "Case",
    "CaseVector",
    "ContentKind",
    "Decision",
    "DecisionSuggestion",
    "DecisionTemplate",
    "HoldingRule",
    "Notice",
    "ReportQuerySet",
    "ReportReason",
    "Reporter",
    "Sanction",
    "SecondLook",
    "SuggestionModel",
]
