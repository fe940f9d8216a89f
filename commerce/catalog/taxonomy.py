"""Writes to product types, categories and tags, which only super admins make."""

from collections.abc import Mapping
from typing import Any, TypeVar

from django.db import transaction
from django.db.models import ProtectedError

from commerce.catalog.models import MAX_CATEGORY_DEPTH, Category, ProductType, Tag
from shared.api.errors import ApiError, ValidationFailed
from shared.api.slugs import save_with_unique_slug

EntryT = TypeVar("EntryT", ProductType, Category, Tag)


@transaction.atomic
def save_entry(*, entry: EntryT, values: Mapping[str, Any]) -> EntryT:
    """Create or change a product type, a category or a tag.

    `values` has `name`, for a category `type_id` and `parent_id`, and for a new entry `language` and `slug`. Raises
    ValidationFailed for an unknown type, and for a parent that the category cannot have.
    """
    for name in ("name", "type_id", "parent_id", *(() if entry.pk else ("language",))):
        if name in values:
            setattr(entry, name, values[name])
    if isinstance(entry, Category):
        place_category(entry)
    if entry.pk:
        entry.save()
        if isinstance(entry, Category):
            update_depths_below(entry)
        return entry

    def save(slug: str) -> None:
        entry.slug = slug
        entry.save(force_insert=True)

    siblings = type(entry)._default_manager.filter(language=entry.language)
    save_with_unique_slug(save, siblings, values.get("slug") or entry.name)
    return entry


def place_category(category: Category) -> None:
    """Set the depth of a category by its parent, and lock its type, so that no other category of the type moves.

    Categories below a category have its type. Raises ValidationFailed for an unknown type, and for a parent that is
    unknown, has another type or language, is below the category, or would make the tree too deep.
    """
    if not ProductType.objects.select_for_update().filter(pk=category.type_id).exists():
        raise ValidationFailed({"type_id": ["There is no product type with this id."]})
    below = Category.objects.filter(parent=category.pk) if category.pk else Category.objects.none()
    if below.exclude(type=category.type_id).exists():
        raise ValidationFailed({"type_id": ["The categories below have the former type: move them away first."]})
    category.depth = 0
    if category.parent_id is None:
        return
    parent = Category.objects.filter(pk=category.parent_id).first()
    if parent is None:
        raise ValidationFailed({"parent": ["There is no category with this id."]})
    if (parent.type_id, parent.language) != (category.type_id, category.language):
        raise ValidationFailed({"parent": [f"{parent.name} has another product type or language."]})
    category.depth = parent.depth + 1
    height = _height_below(category, parent)
    if category.depth + height > MAX_CATEGORY_DEPTH:
        raise ValidationFailed({"parent": [f"A category has at most {MAX_CATEGORY_DEPTH} levels below it."]})


def update_depths_below(category: Category) -> None:
    """Set the depth of all categories below, in one query a level."""
    ids, depth = [category.pk], category.depth
    while ids:
        below, depth = Category.objects.filter(parent__in=ids), depth + 1
        ids = list(below.values_list("pk", flat=True))
        below.update(depth=depth)


def _height_below(category: Category, parent: Category) -> int:
    """Return the number of levels below a category. Raises ValidationFailed if `parent` is the category or below it."""
    height, ids = 0, {category.pk} - {None}
    while ids:
        if parent.pk in ids:
            raise ValidationFailed({"parent": [f"{parent.name} is this category or below it."]})
        ids = set(Category.objects.filter(parent__in=ids).values_list("pk", flat=True))
        height += bool(ids)
    return height


@transaction.atomic
def delete_entry(*, entry: ProductType | Category | Tag) -> None:
    """Delete an entry. Raises ApiError 409 while a type or category is in use; products lose a deleted tag."""
    if isinstance(entry, Category) and entry.products.exists():
        raise ApiError(409, "This category has products: move them to another category first.")
    try:
        entry.delete()
    except ProtectedError:
        message = "There are categories below this one: move or delete them first."
        if isinstance(entry, ProductType):
            message = "This type has categories or products: move them to another type first."
        raise ApiError(409, message) from None
