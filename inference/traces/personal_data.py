"""Personal data in traces: the times and durations of a user's requests, for a day."""

from inference.traces.models import Span
from shared.personal_data import delete_rows

RULES = (delete_rows(Span, "user"),)
