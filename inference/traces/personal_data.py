"""What traces keep about a person: for a day, when they asked for something and how long it took."""

from inference.traces.models import Span
from shared.accounts.person_rules import deleted

RULES = (deleted(Span, "user"),)
