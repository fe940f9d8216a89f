"""Writes to shops and their staff."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction
from django.db.models import F

from commerce.attachments.models import Attachment
from commerce.shops.models import Shop, ShopStaff
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import change_user
from shared.api.errors import ApiError, NotFound, ValidationFailed
from shared.api.slugs import save_with_unique_slug

MAX_INACTIVE_SHOPS = 10  # of one owner
COLUMNS = ("name", "description", "address", "settings")
IMAGES = ("logo_id", "cover_image_id")


@transaction.atomic
def create_shop(*, actor: User, values: Mapping[str, Any]) -> Shop:
    """Create an inactive shop that the actor owns.

    `values` has the columns, `slug`, `logo_id`, `cover_image_id` and, from a super admin, `is_active`. Raises ApiError
    409 if the actor has too many inactive shops.
    """
    if actor.role != Role.SUPER_ADMIN:
        _require_few_inactive_shops(actor)
    shop = Shop(owner=actor, is_active=False)
    _set_fields(shop, actor, values)

    def save(slug: str) -> None:
        shop.slug = slug
        shop.save(force_insert=True)

    save_with_unique_slug(save, Shop.objects.all(), values.get("slug") or shop.name)
    return shop


@transaction.atomic
def change_shop(*, actor: User, shop_id: int, values: Mapping[str, Any]) -> Shop:
    """Change the fields in `values`, which are those of `create_shop`; the slug and the owner never change.

    Raises the errors of `get_owned_shop`.
    """
    shop = get_owned_shop(actor=actor, shop_id=shop_id, for_update=True)
    _set_fields(shop, actor, values)
    shop.save()
    return shop


def get_owned_shop(*, actor: User, shop_id: int, for_update: bool = False) -> Shop:
    """Return the shop if the actor owns it or is a super admin.

    Raises NotFound, and ApiError 403 for staff of the shop, who know that it exists.
    """
    shops = Shop.objects.select_for_update(of=("self",)) if for_update else Shop.objects.all()
    shop = shops.managed_by(actor).filter(pk=shop_id).first()
    if shop is None:
        raise NotFound
    if actor.role != Role.SUPER_ADMIN and shop.owner_id != actor.pk:
        raise ApiError(403, "Only the owner of the shop may do this.")
    return shop


@transaction.atomic
def remove_staff(*, actor: User, shop_id: int, user_id: int) -> None:
    """Remove a staff member from a shop: they become a customer at once and must sign in again.

    Raises NotFound if the user does not work there, and the errors of `get_owned_shop`.
    """
    shop = get_owned_shop(actor=actor, shop_id=shop_id)
    membership = ShopStaff.objects.select_for_update(of=("self",)).filter(shop=shop, user_id=user_id).first()
    if membership is None:
        raise NotFound
    membership.delete()
    user = membership.user
    if user.role == Role.STAFF:
        change_user(
            user=user,
            name=user.name,
            email=user.email,
            role=Role.CUSTOMER,
            is_active=user.is_active,
            actor=actor,
        )


def increment_order_counts(*, shop_ids: Iterable[int]) -> None:
    """Add one to `orders_count` of each shop, within the transaction that places the order."""
    for shop_id in sorted(shop_ids):
        Shop.objects.filter(pk=shop_id).update(orders_count=F("orders_count") + 1)


def _require_few_inactive_shops(owner: User) -> None:
    """Raise ApiError 409 at the limit: anybody can register as an owner, and inactive shops are reviewed by hand."""
    User.objects.select_for_update(no_key=True).get(pk=owner.pk)  # concurrent requests would both pass the check
    if Shop.objects.filter(owner=owner, is_active=False).count() >= MAX_INACTIVE_SHOPS:
        message = f"You have {MAX_INACTIVE_SHOPS} inactive shops, which is the limit: wait until one is activated."
        raise ApiError(409, message)


def _set_fields(shop: Shop, actor: User, values: Mapping[str, Any]) -> None:
    for name in COLUMNS:
        if name in values:
            setattr(shop, name, values[name])
    for name in IMAGES:
        if name in values and values[name] != getattr(shop, name):
            _require_own_image(actor, name, values[name])
            setattr(shop, name, values[name])
    if "is_active" in values and actor.role == Role.SUPER_ADMIN:
        shop.is_active = values["is_active"]


def _require_own_image(actor: User, name: str, image_id: int | None) -> None:
    if image_id is None:
        return
    if not Attachment.objects.for_user(actor).filter(pk=image_id, width__isnull=False).exists():
        raise ValidationFailed({name.removesuffix("_id"): ["Send the id of an image that you uploaded."]})
