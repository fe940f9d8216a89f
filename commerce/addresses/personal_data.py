"""Rules for exporting and erasing the personal data in addresses."""

from commerce.addresses.models import Address
from shared.personal_data import delete_rows

RULES = (delete_rows(Address, "customer"),)
