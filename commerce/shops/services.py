"""Every write to shops."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction
from django.db.models import F

from commerce.attachments.models import Attachment
from commerce.shops.models import Shop, ShopQuerySet, ShopStaff
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import change_user
from shared.api.errors import ApiError, ValidationFailed
from shared.api.slugs import save_with_slug

MOST_WAITING = 10  # shops of one owner that nobody has made active yet
COLUMNS = ("name", "description", "address", "settings")
IMAGES = ("logo_id", "cover_image_id")


@transaction.atomic
def create_shop(*, actor: User, values: Mapping[str, Any]) -> Shop:
    """A new shop that the actor owns. It is seen by others once a super admin has made it active. `values`: the
    columns, `slug`, `logo_id`, `cover_image_id`, and of a super admin `is_active`. Raises ApiError 409 while too many
    of the actor's shops wait for that."""
    if actor.role != Role.SUPER_ADMIN:
        _require_few_waiting(actor)
    shop = Shop(owner=actor, is_active=False)
    _set(shop, actor, values)

    def save(slug: str) -> None:
        shop.slug = slug
        shop.save(force_insert=True)

    save_with_slug(save, Shop.objects.all(), values.get("slug") or shop.name)
    return shop


@transaction.atomic
def change_shop(*, actor: User, shop_id: int, values: Mapping[str, Any]) -> Shop:
    """Changes what is in `values`, which are as for `create_shop`; a shop keeps its slug and its owner. Raises ApiError
    403 for whoever works there, 404 for everybody else who is not its owner or a super admin."""
    shop = owned_shop(Shop.objects.select_for_update(of=("self",)), actor=actor, shop_id=shop_id)
    _set(shop, actor, values)
    shop.save()
    return shop


def owned_shop(shops: ShopQuerySet, *, actor: User, shop_id: int) -> Shop:
    """The one of `shops` that is the actor's to run. Raises ApiError 403 for whoever works there, 404 for everybody
    else who is not its owner or a super admin."""
    shop = shops.managed_by(actor).filter(pk=shop_id).first()
    if shop is None:
        raise ApiError(404, "You have no shop with this id.")
    if actor.role != Role.SUPER_ADMIN and shop.owner_id != actor.pk:
        raise ApiError(403, "Only its owner may do this to a shop.")
    return shop


@transaction.atomic
def remove_staff(*, actor: User, shop_id: int, user_id: int) -> None:
    """Takes somebody's place in a shop: from the next request on they are a customer, and have to sign in again.
    Raises ApiError 404 for who does not work there, and as `owned_shop` does."""
    shop = owned_shop(Shop.objects.all(), actor=actor, shop_id=shop_id)
    place = ShopStaff.objects.select_for_update(of=("self",)).filter(shop=shop, user_id=user_id).first()
    if place is None:
        raise ApiError(404, "Nobody with this id works in this shop.")
    place.delete()
    user = place.user
    if user.role == Role.STAFF:
        change_user(user=user, name=user.name, email=user.email, role=Role.CUSTOMER, is_active=user.is_active)


def count_orders(*, shop_ids: Iterable[int]) -> None:
    """One more order for each of these shops, in the transaction of who places it."""
    for shop_id in sorted(shop_ids):
        Shop.objects.filter(pk=shop_id).update(orders_count=F("orders_count") + 1)


def _require_few_waiting(owner: User) -> None:
    """Anybody registers as an owner: the lists that show one all their shops, and what is in them, are not to grow
    without somebody's leave."""
    User.objects.select_for_update(no_key=True).get(pk=owner.pk)  # two at once would both find room
    if Shop.objects.filter(owner=owner, is_active=False).count() >= MOST_WAITING:
        raise ApiError(409, f"{MOST_WAITING} of your shops wait to be made active: wait for one of them.")


def _set(shop: Shop, actor: User, values: Mapping[str, Any]) -> None:
    for name in COLUMNS:
        if name in values:
            setattr(shop, name, values[name])
    for name in IMAGES:
        if name in values and values[name] != getattr(shop, name):
            _require_own_image(actor, name, values[name])
            setattr(shop, name, values[name])
    if "is_active" in values and actor.role == Role.SUPER_ADMIN:
        shop.is_active = values["is_active"]


def _require_own_image(actor: User, name: str, wanted: int | None) -> None:
    if wanted is None:
        return
    if not Attachment.objects.for_user(actor).filter(pk=wanted, width__isnull=False).exists():
        raise ValidationFailed({name.removesuffix("_id"): ["Name an image that you uploaded yourself."]})
