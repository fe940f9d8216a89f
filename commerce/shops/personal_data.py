"""What shops keep about a person: where they work, and which shops are theirs."""

from commerce.shops.models import Shop, ShopStaff, StaffInvitation
from shared.accounts.models import User
from shared.accounts.person_rules import deleted, kept


def shops_of_theirs(user: User) -> str:
    names = list(Shop.objects.filter(owner=user).values_list("name", flat=True)[:10])
    return f"They own shops: {', '.join(names)}. Give each another owner first." if names else ""


RULES = (
    deleted(ShopStaff, "user"),
    deleted(StaffInvitation, "email", by_email=True, hidden=("nonce",)),
    kept(StaffInvitation, "invited_by", why="it is the shop's, and names them by an id", hidden=("email", "nonce")),
    kept(Shop, "owner", why="nobody who owns a shop is erased", hidden=("settings",)),
)
HINDRANCES = (shops_of_theirs,)
