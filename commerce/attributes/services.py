"""Writes to attributes. Only the owner of a shop writes its attributes."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from commerce.attributes.models import Attribute
from commerce.attributes.values import require_shop_value_limit, require_unused, set_values
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError, NotFound, ValidationFailed
from shared.api.slugs import save_with_unique_slug

MAX_ATTRIBUTES_PER_SHOP = 1_000


@transaction.atomic
def create_attribute(
    *,
    actor: User,
    shop_id: int,
    name: str,
    language: str = "en",
    slug: str = "",
    values: Sequence[Mapping[str, Any]] = (),
    now: datetime,
) -> Attribute:
    """Create an attribute with its values. `slug` is that of its translations; a slug that is taken gets a suffix.

    Raises ApiError 403 for another owner's shop, and ValidationFailed.
    """
    require_owned_shop(actor=actor, shop_id=shop_id)
    require_attribute_limit(shop_id=shop_id, added=1)
    attribute = Attribute(shop_id=shop_id, name=name, language=language, created_at=now, updated_at=now)

    def save(free_slug: str) -> None:
        attribute.slug = free_slug
        attribute.save(force_insert=True)

    save_with_unique_slug(save, Attribute.objects.with_unavailable_slugs(shop_id, language), slug or name)
    set_values(attribute=attribute, items=values)
    return attribute


@transaction.atomic
def update_attribute(*, actor: User, attribute_id: int, changes: Mapping[str, Any], now: datetime) -> Attribute:
    """Change those of `name`, `shop_id` and `values` that are in `changes`; `values` replaces the whole list.

    The slug never changes. Raises NotFound, ApiError 403 unless the actor owns both the present and the new shop, and
    ValidationFailed, also if a product uses a value that would be deleted or move to another shop.
    """
    attribute = _lock_attribute(actor, attribute_id)
    if changes.get("shop_id", attribute.shop_id) != attribute.shop_id:
        require_owned_shop(actor=actor, shop_id=changes["shop_id"])
        require_attribute_limit(shop_id=changes["shop_id"], added=1)
        require_unused(attribute.values.all(), field="shop_id")
        attribute.shop_id = changes["shop_id"]
    attribute.name = changes.get("name", attribute.name)
    attribute.updated_at = now
    attribute.save()
    if "values" in changes:
        set_values(attribute=attribute, items=changes["values"])
    require_shop_value_limit(shop_id=attribute.shop_id)
    return attribute


@transaction.atomic
def delete_attribute(*, actor: User, attribute_id: int) -> None:
    """Delete the attribute in this language, with its values.

    Raises NotFound, ApiError 403, and ValidationFailed if a product uses a value.
    """
    attribute = _lock_attribute(actor, attribute_id)
    require_unused(attribute.values.all(), field="values")
    attribute.delete()


def require_owned_shop(*, actor: User, shop_id: int) -> Shop:
    """Return the shop if the actor owns it or is a super admin.

    Raises ApiError 403 for any other shop, existing or not, and for a super admin ValidationFailed for an unknown id.
    """
    shop = Shop.objects.filter(pk=shop_id).first()
    if actor.role == Role.SUPER_ADMIN:
        if shop is None:
            raise ValidationFailed({"shop_id": ["There is no shop with this id."]})
        return shop
    if shop is None or shop.owner_id != actor.pk:
        raise ApiError(403, "Only the owner of the shop may do this.")
    return shop


def require_attribute_limit(*, shop_id: int, added: int) -> None:
    """Raise ValidationFailed if the shop would have too many attributes: lists of all shops carry them."""
    if added and Attribute.objects.filter(shop=shop_id).count() + added > MAX_ATTRIBUTES_PER_SHOP:
        raise ValidationFailed({"shop_id": [f"A shop has at most {MAX_ATTRIBUTES_PER_SHOP} attributes."]})


def _lock_attribute(actor: User, attribute_id: int) -> Attribute:
    attribute = Attribute.objects.select_for_update().filter(pk=attribute_id).first()
    if attribute is None:
        raise NotFound
    require_owned_shop(actor=actor, shop_id=attribute.shop_id)
    return attribute
