"""Moderation in the admin: the queue, the decisions and the statistics. Django's autodiscovery imports it."""

from commerce.moderation.admin.model_admins import CaseAdmin, DecisionAdmin, HoldingRuleAdmin
from commerce.moderation.admin.sanction_admin import SanctionAdmin

__all__ = ["CaseAdmin", "DecisionAdmin", "HoldingRuleAdmin", "SanctionAdmin"]
