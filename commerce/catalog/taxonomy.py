"""Writes to product types and categories, which only super admins make."""

from collections.abc import Mapping
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import ProtectedError

from commerce.catalog.models import Category, ProductType
from shared.api.errors import ApiError, ValidationFailed
from shared.api.slugs import save_with_unique_slug

EntryT = TypeVar("EntryT", ProductType, Category)


@transaction.atomic
def save_entry(*, entry: EntryT, values: Mapping[str, Any]) -> EntryT:
    """Create or change a product type or a category.

    `values` has `name`, for a category `type_id`, and for a new entry `language` and `slug`. Raises ValidationFailed
    for an unknown type.
    """
    for name in ("name", "type_id", *(() if entry.pk else ("language",))):
        if name in values:
            setattr(entry, name, values[name])
    if isinstance(entry, Category) and not ProductType.objects.filter(pk=entry.type_id).exists():
        raise ValidationFailed({"type_id": ["There is no product type with this id."]})
    if entry.pk:
        entry.save()
        return entry

    def save(slug: str) -> None:
        entry.slug = slug
        entry.save(force_insert=True)

    siblings = type(entry)._default_manager.filter(language=entry.language)
    save_with_unique_slug(save, siblings, values.get("slug") or entry.name)
    return entry


@transaction.atomic
def delete_entry(*, entry: ProductType | Category) -> None:
    """Delete a product type or a category. Raises ApiError 409 while products or categories use it."""
    if isinstance(entry, Category) and entry.products.exists():
        raise ApiError(409, "This category has products: move them to another category first.")
    try:
        entry.delete()
    except ProtectedError:
        raise ApiError(409, "This type has categories or products: move them to another type first.") from None
