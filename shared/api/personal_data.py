"""What is kept of a person's requests for a day: what they were answered."""

from shared.accounts.person_rules import deleted
from shared.api.models import KeyedRequest

RULES = (deleted(KeyedRequest, "user", hidden=("scope", "fingerprint", "owner", "body")),)
