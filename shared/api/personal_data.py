"""What is kept of a person's requests for a day: what they were answered."""

from shared.api.models import KeyedRequest
from shared.personal_data import delete_rows

RULES = (delete_rows(KeyedRequest, "user", excluded_fields=("scope", "fingerprint", "owner", "body")),)
