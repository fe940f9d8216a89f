"""What the ledger of usage keeps about a person: sums a day."""

from inference.usage.models import DailyUsage
from shared.accounts.person_rules import kept

RULES = (kept(DailyUsage, "user", why="sums that bills are made of, under an id"),)
