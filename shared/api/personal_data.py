"""Personal data of the API: responses that are stored for a day."""

from shared.api.models import KeyedRequest
from shared.personal_data import delete_rows

RULES = (delete_rows(KeyedRequest, "user", excluded_fields=("scope", "fingerprint", "owner", "body")),)
