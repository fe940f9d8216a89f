"""Personal data in the usage ledger: daily sums per user."""

from inference.usage.models import DailyUsage
from shared.personal_data import retain_rows

RULES = (retain_rows(DailyUsage, "user", reason="sums for billing, linked to an id only"),)
