"""What addresses keep about a person."""

from commerce.addresses.models import Address
from shared.accounts.person_rules import deleted

RULES = (deleted(Address, "customer"),)
