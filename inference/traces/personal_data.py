"""What traces keep about a person: for a day, when they asked for something and how long it took."""

from inference.traces.models import Span
from shared.personal_data import delete_rows

RULES = (delete_rows(Span, "user"),)
