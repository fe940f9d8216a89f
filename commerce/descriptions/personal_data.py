"""Personal data of the app: which descriptions a person requested and decided on."""

from commerce.descriptions.models import DescriptionDraft, DescriptionJob, QuotaUsage
from shared.personal_data import retain_rows

SHOP_DATA = "it is about the shop's products, and refers to the person by an id only"

RULES = (
    retain_rows(DescriptionDraft, "author", reason=SHOP_DATA),
    retain_rows(DescriptionDraft, "decided_by", reason=SHOP_DATA),
    retain_rows(DescriptionJob, "author", reason=SHOP_DATA),
    retain_rows(QuotaUsage, "user", reason="it is a number per day"),
)
