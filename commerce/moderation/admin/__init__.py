"""The moderators' part of the admin: the queue, its decisions and statistics. Django's autodiscovery imports it."""

from commerce.moderation.admin.model_admins import CaseAdmin, DecisionAdmin

__all__ = ["CaseAdmin", "DecisionAdmin"]
