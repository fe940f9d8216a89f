"""Rules for exporting and erasing the personal data that shops keep."""

from commerce.shops.models import Shop, ShopStaff, StaffInvitation
from shared.accounts.models import User
from shared.personal_data import delete_rows, retain_rows

MAX_LISTED_SHOPS = 10


def owned_shops_blocker(user: User) -> str:
    """Return why a shop owner cannot be erased, or an empty string."""
    names = list(Shop.objects.filter(owner=user).values_list("name", flat=True)[:MAX_LISTED_SHOPS])
    return f"They own shops: {', '.join(names)}. Give each another owner first." if names else ""


RULES = (
    delete_rows(ShopStaff, "user"),
    delete_rows(StaffInvitation, "email", by_email=True, excluded_fields=("nonce",)),
    retain_rows(
        StaffInvitation,
        "invited_by",
        reason="it is the shop's, and names them by an id",
        excluded_fields=("email", "nonce"),
    ),
    retain_rows(Shop, "owner", reason="nobody who owns a shop is erased", excluded_fields=("settings",)),
)
ERASURE_BLOCKERS = (owned_shops_blocker,)
