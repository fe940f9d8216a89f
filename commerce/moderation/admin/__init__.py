"""Moderation in the admin: the queue, the decisions and the statistics. Django's autodiscovery imports it."""

from commerce.moderation.admin.model_admins import CaseAdmin, DecisionAdmin

__all__ = ["CaseAdmin", "DecisionAdmin"]
