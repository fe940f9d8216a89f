"""Staff invitations: an owner names an e-mail address, and its reader joins the shop by a signed link."""

import re
import uuid
from datetime import datetime, timedelta

from django.core import signing
from django.db import transaction

from commerce.shops.models import Shop, ShopStaff, StaffInvitation
from commerce.shops.services import get_owned_shop
from shared.accounts.email.links import InvalidLink
from shared.accounts.email.messages import link_email
from shared.accounts.email.outbox import email_outbox
from shared.accounts.models import User
from shared.accounts.recovery import create_or_promote_staff, hash_new_password, limit_emails, limit_link_use
from shared.accounts.roles import Role
from shared.api.errors import ApiError, NotFound
from shared.api.limits.rate_limits import RateLimitDecision, hit, raise_if_limited

INVITATION_LIFETIME = timedelta(days=3)
SALT = "stoa.shops.staff-invitation"
MAX_INVITATIONS_PER_DAY = 50  # of one shop
MAX_PER_TRANSACTION = 500
# Words, with a full stop only at the end of one: mail programs make a link of `word.word`.
NAME_IN_EMAIL = re.compile(r"(?:[\w '\u2019&,+!()-]|\.(?= |$)){1,60}")


def invite_staff(*, actor: User, shop_id: int, email: str, now: datetime) -> StaffInvitation:
    """Send an invitation by e-mail; an earlier one to the same address stops working.

    The result does not depend on whether the address has an account. Raises ApiError 403 for an actor whose own
    address is not confirmed, ApiError 429, and the errors of `get_owned_shop`.
    """
    shop = get_owned_shop(actor=actor, shop_id=shop_id)
    if actor.email_verified_at is None and actor.role != Role.SUPER_ADMIN:
        raise ApiError(403, "Confirm your e-mail address before you invite others.")
    email = User.objects.normalize_email(email)
    raise_if_limited(
        hit("invitations-of-shop", str(shop.pk), limit=MAX_INVITATIONS_PER_DAY, window_s=86_400, strict=True)
    )
    limit_emails(email=email)
    fields = {
        "invited_by": actor,
        "nonce": uuid.uuid4(),
        "created_at": now,
        "expires_at": now + INVITATION_LIFETIME,
        "accepted_at": None,
    }
    with transaction.atomic():
        invitation, _ = StaffInvitation.objects.update_or_create(shop=shop, email=email, defaults=fields)
        _send_link(shop, invitation)
    return invitation


def accept_invitation(*, token: str, name: str, password: str, address: str, now: datetime) -> RateLimitDecision:
    """Make the invited person a staff member of the shop, with this password. `address` is the client's IP address.

    Raises BadLink for a wrong, used or expired token, ApiError 409 for a user who cannot be staff or works in another
    shop, and ValidationFailed for a weak password, which leaves the token valid.
    """
    decision = limit_link_use(address=address)
    try:
        claims = signing.loads(token, salt=SALT)
    except signing.BadSignature:
        raise InvalidLink from None
    invitations = StaffInvitation.objects.open(now).filter(pk=claims["id"], nonce=uuid.UUID(claims["nonce"]))
    invitation = invitations.first()
    if invitation is None:
        raise InvalidLink
    # Before the transaction: hashing is slow, and SQLite has a single write lock.
    password_hash = hash_new_password(email=invitation.email, name=name, password=password)
    with transaction.atomic():
        if not invitations.update(accepted_at=now):  # a concurrent request was first
            raise InvalidLink
        user = create_or_promote_staff(
            email=invitation.email,
            name=name,
            password_hash=password_hash,
            may_run_inference=invitation.invited_by.may_run_inference,
            now=now,
        )
        membership, _ = ShopStaff.objects.get_or_create(user=user, defaults={"shop_id": invitation.shop_id})
        if membership.shop_id != invitation.shop_id:
            raise ApiError(409, "You work in another shop already.")
    return decision


def withdraw_invitation(*, actor: User, shop_id: int, invitation_id: int, now: datetime) -> None:
    """Delete an open invitation, so that its link stops working.

    Raises NotFound if it cannot be accepted any more, and the errors of `get_owned_shop`.
    """
    shop = get_owned_shop(actor=actor, shop_id=shop_id)
    if not StaffInvitation.objects.open(now).filter(shop=shop, pk=invitation_id).delete()[0]:
        raise NotFound


def delete_expired_invitations(*, now: datetime) -> None:
    """Delete the invitations that nobody has accepted in time, in short transactions."""
    expired = StaffInvitation.objects.expired(now)
    while ids := list(expired.values_list("pk", flat=True)[:MAX_PER_TRANSACTION]):
        expired.filter(pk__in=ids).delete()  # not one that was renewed meanwhile


def _send_link(shop: Shop, invitation: StaffInvitation) -> None:
    name = _name_in_email(shop.name)
    message = link_email(
        to=invitation.email,
        subject=f"Invitation to work at {name}",
        intro=f"You are invited to join the staff of {name}. Accept the invitation here:",
        page="join",
        token=signing.dumps({"id": invitation.pk, "nonce": invitation.nonce.hex}, salt=SALT),
        footer="If you do not know this shop, ignore this e-mail.",
    )
    transaction.on_commit(lambda: email_outbox.send(message))


def _name_in_email(name: str) -> str:
    """Return the shop's name, or "a shop" for a name that could carry a link or a message of its owner."""
    return name if NAME_IN_EMAIL.fullmatch(name) else "a shop"
