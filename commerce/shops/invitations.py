"""Staff join a shop by a signed link: its owner names an e-mail, and whoever reads its mail accepts."""

import uuid
from datetime import datetime, timedelta

from django.core import signing
from django.db import transaction

from commerce.shops.models import Shop, ShopStaff, StaffInvitation
from commerce.shops.services import owned_shop
from shared.accounts.letters import letter, postbox
from shared.accounts.links import BadLink
from shared.accounts.models import User
from shared.accounts.recovery import count_letter, count_link_use, hash_new_password, make_staff
from shared.api.errors import ApiError
from shared.api.rate_limits import Decision

LIFETIME = timedelta(days=3)
SALT = "stoa.shops.staff-invitation"


def invite_staff(*, actor: User, shop_id: int, email: str, now: datetime) -> StaffInvitation:
    """An invitation, and a letter with its link; a former one to the same e-mail ends. The answer is the same whoever
    has this e-mail. Raises ApiError 404 for who has nothing to do with the shop, 403 for its staff, 429."""
    shop = owned_shop(Shop.objects.all(), actor=actor, shop_id=shop_id)
    email = User.objects.normalize_email(email)
    count_letter(email=email)
    terms = {
        "invited_by": actor,
        "nonce": uuid.uuid4(),
        "created_at": now,
        "expires_at": now + LIFETIME,
        "accepted_at": None,
    }
    with transaction.atomic():
        invitation, _ = StaffInvitation.objects.update_or_create(shop=shop, email=email, defaults=terms)
        message = letter(
            to=email,
            subject=f"A place in {_one_line(shop.name)}",
            why=f"{_one_line(shop.name)} would like you to work in their shop. Accept here:",
            page="join",
            token=signing.dumps({"id": invitation.pk, "nonce": invitation.nonce.hex}, salt=SALT),
            if_not="If you know nothing of this, do nothing.",
        )
        transaction.on_commit(lambda: postbox.post(message))
    return invitation


def accept_invitation(*, token: str, name: str, password: str, address: str, now: datetime) -> Decision:
    """Makes the invited a member of the shop's staff, with this password. Raises BadLink, also for one that was used;
    ApiError 409 for who cannot be staff or works in another shop; ValidationFailed, with the link still good."""
    decision = count_link_use(address=address)
    try:
        said = signing.loads(token, salt=SALT)
    except signing.BadSignature:
        raise BadLink from None
    offered = StaffInvitation.objects.open(now).filter(pk=said["id"], nonce=uuid.UUID(said["nonce"]))
    invitation = offered.first()
    if invitation is None:
        raise BadLink
    # Before the transaction: it takes its time, and SQLite has one lock for everybody who writes.
    password_hash = hash_new_password(email=invitation.email, name=name, password=password)
    with transaction.atomic():
        if not offered.update(accepted_at=now):  # of two at once, one
            raise BadLink
        user = make_staff(email=invitation.email, name=name, password_hash=password_hash, now=now)
        place, _ = ShopStaff.objects.get_or_create(user=user, defaults={"shop_id": invitation.shop_id})
        if place.shop_id != invitation.shop_id:
            raise ApiError(409, "You work in another shop already.")
    return decision


def withdraw_invitation(*, actor: User, shop_id: int, invitation_id: int, now: datetime) -> None:
    """Its link ends. Raises ApiError as `invite_staff` does, and 404 for one that cannot be accepted any more."""
    shop = owned_shop(Shop.objects.all(), actor=actor, shop_id=shop_id)
    if not StaffInvitation.objects.open(now).filter(shop=shop, pk=invitation_id).delete()[0]:
        raise ApiError(404, "This shop has no open invitation with this id.")


def _one_line(text: str) -> str:
    """A shop's name as a letter may show it: owners choose them, and a header is one line."""
    return " ".join(text.split())[:80]
