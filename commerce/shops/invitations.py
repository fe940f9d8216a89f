"""Staff join a shop by a signed link: its owner names an e-mail, and whoever reads its mail accepts."""

import uuid
from datetime import datetime, timedelta

from django.core import signing
from django.db import transaction

from commerce.shops.models import Shop, ShopStaff, StaffInvitation
from shared.accounts.letters import letter, postbox
from shared.accounts.links import BadLink
from shared.accounts.models import User
from shared.accounts.recovery import count_letter, count_link_use, make_staff
from shared.accounts.roles import Role
from shared.api.errors import ApiError
from shared.api.rate_limits import Decision

LIFETIME = timedelta(days=3)
SALT = "stoa.shops.staff-invitation"


def invite_staff(*, actor: User, shop_id: int, email: str, now: datetime) -> StaffInvitation:
    """An invitation, and a letter with its link; a former one to the same e-mail ends. The answer is the same whoever
    has this e-mail. Raises ApiError 404 for who has nothing to do with the shop, 403 for its staff, 429."""
    shop = Shop.objects.managed_by(actor).filter(pk=shop_id).first()
    if shop is None:
        raise ApiError(404, "You have no shop with this id.")
    if actor.role != Role.SUPER_ADMIN and shop.owner_id != actor.pk:
        raise ApiError(403, "Only its owner invites people to a shop.")
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
    with transaction.atomic():
        taken = StaffInvitation.objects.open(now).filter(pk=said["id"], nonce=uuid.UUID(said["nonce"]))
        if not taken.update(accepted_at=now):  # of two at once, one
            raise BadLink
        invitation = StaffInvitation.objects.get(pk=said["id"])
        user = make_staff(email=invitation.email, name=name, password=password, now=now)
        place, _ = ShopStaff.objects.get_or_create(user=user, defaults={"shop_id": invitation.shop_id})
        if place.shop_id != invitation.shop_id:
            raise ApiError(409, "You work in another shop already.")
    return decision


def _one_line(text: str) -> str:
    """A shop's name as a letter may show it: owners choose them, and a header is one line."""
    return " ".join(text.split())[:80]
