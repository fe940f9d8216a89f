"""Import of a CSV file's variations into the variable products of a shop, all of them or none."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction

from commerce.catalog.models import Product, Variation
from commerce.catalog.services import require_managed_shop, require_own_variation_images
from commerce.catalog.transfer.product_import import NAMES_PER_QUERY, WrittenCounts
from commerce.catalog.transfer.variation_files import CsvVariation
from commerce.catalog.variations import COLUMNS, change_variations
from commerce.webhooks.events import announce_product_updates
from shared.accounts.models import User
from shared.api.csv_files import LineErrors
from shared.api.errors import ValidationFailed
from shared.api.query_params import DEFAULT_LANGUAGE
from shared.api.slugs import normalize_slug
from shared.querysets import batches

UNKNOWN_PRODUCT = "product: Name a product of this shop, by product_id, or by its slug and language."
PATH = "variation_options.upsert"  # of an item in the errors of a product's variations


@transaction.atomic
def import_variations(*, actor: User, shop_id: int, variations: Sequence[CsvVariation], now: datetime) -> WrittenCounts:
    """Create the variations that the products do not have, and change the columns that the file has of those they have.

    Nothing is deleted, and importing the same file again changes nothing. A variation is matched within its product by
    id, else by SKU, else by title. Raises ApiError 403, and ValidationFailed with keys such as `csv.3`.
    """
    require_managed_shop(actor=actor, shop_id=shop_id)
    errors = LineErrors()
    created = changed = 0
    products = []
    for product, lines in _lines_by_product(shop_id, variations, errors):
        items = _changed_items(product, lines, errors)
        if not items:
            continue
        try:
            require_own_variation_images(product, actor, list(items.values()), PATH)
            change_variations(product=product, upsert=list(items.values()), removed_ids=[], now=now)
        except ValidationFailed as error:
            for line, messages in _messages_by_line(error, list(items)):
                errors.add(line, messages)
        new = sum("id" not in item for item in items.values())
        created, changed = created + new, changed + len(items) - new
        products.append(product)
    errors.raise_any()
    announce_product_updates(products, now=now)
    return WrittenCounts(created=created, changed=changed)


def _lines_by_product(
    shop_id: int, variations: Sequence[CsvVariation], errors: LineErrors
) -> Iterator[tuple[Product, list[CsvVariation]]]:
    """Yield the locked products with their lines, in the order in which orders lock products."""
    of_shop = Product.objects.live().filter(shop=shop_id)
    known = {row.values["product_id"] for row in variations if "product_id" in row.values}
    slugs = {normalize_slug(row.values["product"]) for row in variations if "product" in row.values}
    ids, ids_by_slug = set[int](), dict[tuple[str, str], int]()
    for some in batches(known, NAMES_PER_QUERY):
        ids |= set(of_shop.filter(pk__in=some).values_list("pk", flat=True))
    for names in batches(slugs, NAMES_PER_QUERY):
        for pk, slug, language in of_shop.filter(slug__in=names).values_list("pk", "slug", "language"):
            ids_by_slug[slug, language] = pk
    lines: dict[int, list[CsvVariation]] = defaultdict(list)
    for row in variations:
        product_id = row.values.get("product_id")
        if product_id is None and "product" in row.values:
            slug, language = row.values["product"], row.values.get("language", DEFAULT_LANGUAGE)
            product_id = ids_by_slug.get((normalize_slug(slug), language))
        elif product_id not in ids:
            product_id = None
        if product_id is None:
            errors.add(row.line, [UNKNOWN_PRODUCT])
        else:
            lines[product_id].append(row)
    for product_id in sorted(lines):
        product = of_shop.select_for_update(of=("self",)).filter(pk=product_id).first()
        if product is None:  # deleted meanwhile
            for row in lines[product_id]:
                errors.add(row.line, [UNKNOWN_PRODUCT])
        else:
            yield product, lines[product_id]


def _changed_items(product: Product, lines: Sequence[CsvVariation], errors: LineErrors) -> dict[int, dict[str, Any]]:
    """Return the variations to add and to change, by their lines."""
    known = list(Variation.objects.visible_to(None).filter(product=product))
    items: dict[int, dict[str, Any]] = {}
    first_lines: dict[Any, int] = {}
    for row in lines:
        item = {name: value for name, value in row.values.items() if name in COLUMNS}
        if errors.add(row.line, _line_errors(product, row.values)):
            continue
        found = _find(known, row.values)
        if isinstance(found, str):
            errors.add(row.line, [found])
            continue
        sku, title = row.values.get("sku"), row.values.get("title")
        key = ("id", found.pk) if found else ("sku", sku) if sku else ("title alone", title)
        first = first_lines.setdefault(key, row.line)
        if found is None:  # a title alone would find this one and any other new one with this title
            first = min(first, first_lines.get(("title" if key[0] == "title alone" else "title alone", title), first))
            first_lines.setdefault(("title", title), row.line)
        if first != row.line:
            errors.add(row.line, [f"Line {first} names the same variation."])
        elif found is None:
            missing = [f"{name}: A new variation needs it." for name in ("title", "price") if name not in item]
            if not errors.add(row.line, missing):
                items[row.line] = item
        elif _differs(found, item):
            items[row.line] = item | {"id": found.pk}
    return items


def _line_errors(product: Product, values: Mapping[str, Any]) -> Iterator[str]:
    if product.product_type != Product.Kind.VARIABLE:
        yield "product: Only a variable product has variations."
    if values.get("currency", product.currency) != product.currency:
        yield f"currency: The product has prices in {product.currency}."
    has_amounts = "price" in values or "sale_price" in values
    if has_amounts and "currency" not in values and product.currency != settings.CURRENCY:
        yield f"currency: The product has prices in {product.currency}: add the column currency."


def _find(known: Sequence[Variation], values: Mapping[str, Any]) -> Variation | str | None:
    """Return the variation that a line names, None for a new one, or what is wrong."""
    for name in ("id", "sku", "title"):
        if not values.get(name):
            continue
        found = [variation for variation in known if getattr(variation, name) == values[name]]
        if len(found) > 1:
            return f"{name}: The product has {len(found)} such variations. Name one by its id."
        if found:
            return found[0]
        if name == "id":
            return "id: This product has no variation with this id."
    return None


def _differs(variation: Variation, item: Mapping[str, Any]) -> bool:
    """Return whether the line changes a column; options are compared as they are read."""
    old = {name: getattr(variation, name) for name in item} | {"options": variation.current_options}
    return any(old[name] != value for name, value in item.items())


def _messages_by_line(error: ValidationFailed, lines: Sequence[int]) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the messages of each error of a product's variations; one of the whole at its first line."""
    for path, messages in (error.problem.errors or {}).items():
        position, _, column = path.removeprefix(PATH).strip(".").partition(".")
        line = lines[int(position)] if position.isdigit() else lines[0]
        yield line, [f"{column.partition('.')[0]}: {text}" if column else text for text in messages]
