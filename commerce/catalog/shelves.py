"""Every write to the types and categories that products stand in: a super admin's."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import ProtectedError

from commerce.catalog.models import Category, ProductType
from shared.api.errors import ApiError, ValidationFailed
from shared.api.slugs import save_with_slug


@transaction.atomic
def save_shelf(*, shelf: ProductType | Category, values: Mapping[str, Any]) -> None:
    """Makes or changes a type or a category. `values`: name, and for a new one language and slug; a category's
    `type_id`. Raises ValidationFailed for an unknown type."""
    for name in ("name", "type_id", *(() if shelf.pk else ("language",))):
        if name in values:
            setattr(shelf, name, values[name])
    if isinstance(shelf, Category) and not ProductType.objects.filter(pk=shelf.type_id).exists():
        raise ValidationFailed({"type_id": ["There is no type with this id."]})
    if shelf.pk:
        shelf.save()
        return

    def save(slug: str) -> None:
        shelf.slug = slug
        shelf.save(force_insert=True)

    siblings = type(shelf)._default_manager.filter(language=shelf.language)
    save_with_slug(save, siblings, values.get("slug") or shelf.name)


@transaction.atomic
def delete_shelf(*, shelf: ProductType | Category) -> None:
    """Raises ApiError 409 while something stands on it."""
    if isinstance(shelf, Category) and shelf.products.exists():
        raise ApiError(409, "Products stand in this category: move them first.")
    try:
        shelf.delete()
    except ProtectedError:
        raise ApiError(409, "Categories or products are of this type: move them first.") from None
