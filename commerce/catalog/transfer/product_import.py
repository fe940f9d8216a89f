"""Import of a CSV file's products into a shop, all of them or none."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction

from commerce.catalog.models import Category, Product, ProductType, Tag
from commerce.catalog.services import (
    COLUMNS,
    UNKNOWN_IMAGE,
    assign_columns,
    own_images,
    require_managed_shop,
    require_prices_of_new_currency,
)
from commerce.catalog.transfer.product_files import CsvProduct
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.api.csv_files import LineErrors
from shared.api.errors import ApiError, ValidationFailed
from shared.api.query_params import DEFAULT_LANGUAGE, parse_integer
from shared.api.slugs import normalize_slug, save_all_with_unique_slugs
from shared.querysets import batches

DERIVED_COLUMNS = ("price", "sale_price", "quantity")  # of a variable product: they follow from its variations
WRITTEN_COLUMNS = (*COLUMNS, "image_id")
RELATIONS = {"categories": "category_id", "tags": "tag_id", "gallery": "attachment_id"}  # columns of their tables
NAMES_PER_QUERY = 1_000


@dataclass(frozen=True, kw_only=True)
class ImportCounts:
    """Numbers of new and of changed records."""

    created: int
    changed: int


@dataclass
class _Row:
    """A line of the file with the product that it names or makes, and what that was before."""

    line: int
    values: dict[str, Any]
    product: Product
    lists: dict[str, set[int]] = field(default_factory=dict)  # complete lists of ids that the line has

    def __post_init__(self) -> None:
        self.is_new = self.product.pk is None
        self.old = {name: getattr(self.product, name) for name in WRITTEN_COLUMNS}


@transaction.atomic
def import_products(*, actor: User, shop_id: int, products: Sequence[CsvProduct], now: datetime) -> ImportCounts:
    """Create the products that the shop does not have, and change the columns that the file has of those it has.

    Nothing is deleted, and importing the same file again changes nothing. A product is matched by id, else by slug,
    else by SKU, else by name, within its language. Raises ApiError 403, and ValidationFailed with keys such as `csv.3`.
    """
    shop = require_managed_shop(actor=actor, shop_id=shop_id)
    errors = LineErrors()
    rows = _match(shop, products, errors)
    # After the products, as orders do; two imports at once would both create the same products.
    Shop.objects.select_for_update(no_key=True).get(pk=shop_id)
    _require_still_new(shop, [row for row in rows if row.is_new])
    names, old_lists = _Names(rows), _read_lists([row.product.pk for row in rows if not row.is_new])
    for row in rows:
        errors.add(row.line, [*_resolve_names(row, names), *_assign(row, actor)])
    _require_own_images(rows, actor, old_lists["gallery"], errors)
    errors.raise_any()
    new = [row.product for row in rows if row.is_new]
    save_all_with_unique_slugs(new, _is_free)
    changed = {row.product.pk for row in rows if not row.is_new and _update(row, now)}
    relisted = _write_lists(rows, old_lists) - {product.pk for product in new} - changed
    for some in batches(relisted, NAMES_PER_QUERY):
        Product.objects.filter(pk__in=some).update(updated_at=now)  # which search and facets read
    return ImportCounts(created=len(new), changed=len(changed) + len(relisted))


def _match(shop: Shop, products: Sequence[CsvProduct], errors: LineErrors) -> list[_Row]:
    """Return a row for each line, with the product that it names, locked, or a new one."""
    matcher, rows, lines = _ProductMatcher(shop, products), [], dict[Any, int]()
    for sent in products:
        product, key = matcher.find(sent.values)
        if isinstance(product, str):
            errors.add(sent.line, [product])
        elif (first := lines.setdefault(key, sent.line)) != sent.line:
            errors.add(sent.line, [f"Line {first} names the same product."])
        else:
            rows.append(_Row(sent.line, dict(sent.values), product))
    return rows


class _ProductMatcher:
    """The shop's products that a file names, by each of their names."""

    def __init__(self, shop: Shop, products: Sequence[CsvProduct]) -> None:
        self._shop = shop
        self._by_id: dict[int, Product] = {}
        self._by_name: dict[tuple[str, str, str], list[Product]] = defaultdict(list)
        of_shop, ids = Product.objects.live().filter(shop=shop), set[int]()
        for name in ("id", "slug", "sku", "name"):
            sent = {_normalized(name, row.values[name]) for row in products if row.values.get(name)}
            for some in batches(sent, NAMES_PER_QUERY):
                ids |= set(of_shop.filter(**{f"{name}__in": some}).values_list("pk", flat=True))
        for some in batches(sorted(ids), NAMES_PER_QUERY):  # locked in the order in which orders lock them
            for product in of_shop.select_for_update(of=("self",)).filter(pk__in=some).order_by("pk"):
                self._by_id[product.pk] = product
                for name in ("slug", "sku", "name"):
                    self._by_name[name, getattr(product, name), product.language].append(product)

    def find(self, values: Mapping[str, Any]) -> tuple[Product | str, Any]:
        """Return the product, or what is wrong, and a key that is the same for lines that name the same product."""
        if "id" in values:
            product = self._by_id.get(values["id"])
            if product is None:
                return "id: This shop has no product with this id.", None
            wanted = values.get("language", product.language)
            return ("language: The language never changes." if wanted != product.language else product), product.pk
        key = _key_of(values)
        if key is None:
            return "The line has no id, slug, SKU or name.", None
        found = self._by_name.get(key, [])
        if len(found) > 1:
            return f"{key[0]}: The shop has {len(found)} such products. Name one by its id or slug.", None
        if found:
            return found[0], found[0].pk
        return Product(shop=self._shop, price=0, language=key[2]), key


def _key_of(values: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Return by which column, text and language a line without an id names its product."""
    for name in ("slug", "sku", "name"):
        if values.get(name):
            return name, _normalized(name, values[name]), values.get("language", DEFAULT_LANGUAGE)
    return None


def _require_still_new(shop: Shop, rows: Sequence[_Row]) -> None:
    """Raise ApiError 409 if the shop has got one of these new products meanwhile."""
    keys = {key for row in rows if (key := _key_of(row.values))}
    for name in ("slug", "sku", "name"):
        for some in batches({text for column, text, _ in keys if column == name}, NAMES_PER_QUERY):
            found = Product.objects.live().filter(shop=shop, **{f"{name}__in": some}).values_list(name, "language")
            if any((name, *pair) in keys for pair in found):
                raise ApiError(409, "Another request has created one of these products meanwhile. Import again.")


def _normalized(name: str, value: Any) -> Any:
    return normalize_slug(value) if name == "slug" else value


class _Names:
    """Types, categories and tags that a file names, by id, and by slug and language."""

    def __init__(self, rows: Sequence[_Row]) -> None:
        self._found = {
            "type": self._load(ProductType, {row.values["type"] for row in rows if "type" in row.values}),
            "categories": self._load(Category, {name for row in rows for name in row.values.get("categories", ())}),
            "tags": self._load(Tag, {name for row in rows for name in row.values.get("tags", ())}),
        }

    def _load(self, model: Any, names: Collection[str]) -> dict[Any, int]:
        ids = {number for name in names if (number := parse_integer(name)) is not None}
        slugs = {normalize_slug(name) for name in names}
        found: dict[Any, int] = {}
        for column, values in (("pk", ids), ("slug", slugs)):
            for some in batches(values, NAMES_PER_QUERY):
                for row in model._default_manager.filter(**{f"{column}__in": some}).only("slug", "language"):
                    found |= {row.pk: row.pk, (row.slug, row.language): row.pk}
        return found

    def find(self, kind: str, name: str, language: str) -> int | None:
        found = self._found[kind]
        if (number := parse_integer(name)) is not None:
            return found.get(number)
        slug = normalize_slug(name)
        return found.get((slug, language)) or found.get((slug, DEFAULT_LANGUAGE))


def _resolve_names(row: _Row, names: _Names) -> Iterator[str]:
    """Replace the names in a line by ids. Yield a message for each unknown one."""
    for kind in ("type", "categories", "tags"):
        if kind not in row.values:
            continue
        sent = row.values.pop(kind)
        found = {name: names.find(kind, name, row.product.language) for name in ([sent] if kind == "type" else sent)}
        yield from (f"{kind}: There is no {name!r} in this language." for name, pk in found.items() if pk is None)
        if kind == "type":
            row.values["type_id"] = found[sent]
        else:
            row.lists[kind] = {pk for pk in found.values() if pk is not None}
    if "gallery_ids" in row.values:
        row.lists["gallery"] = set(row.values.pop("gallery_ids"))


def _assign(row: _Row, actor: User) -> Iterator[str]:
    """Set the columns of the product. Yield what is wrong."""
    product, values = row.product, row.values
    kind = values.get("product_type", product.product_type)
    if row.is_new:
        product.slug = values.get("slug") or values.get("name", "")
        needed = ("name", "type_id", *(("price",) if kind == Product.Kind.SIMPLE else ()))
        yield from (f"{name.removesuffix('_id')}: A new product needs it." for name in needed if name not in values)
    elif kind != product.product_type:
        yield "product_type: An import does not change it."
    if kind == Product.Kind.VARIABLE:
        values = {name: value for name, value in values.items() if name not in DERIVED_COLUMNS}
    has_amounts = "price" in values or "sale_price" in values
    if has_amounts and "currency" not in values and product.currency != settings.CURRENCY:
        yield f"currency: The product has prices in {product.currency}: add the column currency."
    if "image_id" in values:
        product.image_id = values["image_id"]
    try:
        if not row.is_new:
            require_prices_of_new_currency(product, values)
        messages = assign_columns(product, actor, values)
    except ValidationFailed as error:
        messages = error.problem.errors or {}
    yield from (f"{name}: {text}" for name, texts in messages.items() for text in texts)


def _require_own_images(
    rows: Sequence[_Row], actor: User, galleries: Mapping[int, set[int]], errors: LineErrors
) -> None:
    """Add an error for each image that a product does not have yet and that the actor did not upload."""
    wanted: list[tuple[int, str, int]] = []
    for row in rows:
        image_id = row.product.image_id
        if image_id is not None and image_id != row.old["image_id"]:
            wanted.append((row.line, "image", image_id))
        added = row.lists.get("gallery", set()) - galleries.get(row.product.pk, set())
        wanted += [(row.line, "gallery", image_id) for image_id in sorted(added)]
    own = set[int]()
    for some in batches({image_id for *_, image_id in wanted}, NAMES_PER_QUERY):
        own |= set(own_images(actor, some).values_list("pk", flat=True))
    for line, name, image_id in wanted:
        if image_id not in own:
            errors.add(line, [f"{name}: {UNKNOWN_IMAGE}"])


def _is_free(product: Product, owners: Collection[tuple[str, int]]) -> bool:
    return all(language != product.language for language, _ in owners)


def _update(row: _Row, now: datetime) -> bool:
    """Write the columns that differ, and return whether there are any."""
    changes = {name: value for name, old in row.old.items() if (value := getattr(row.product, name)) != old}
    if changes:
        Product.objects.filter(pk=row.product.pk).update(**changes, updated_at=now)
    return bool(changes)


def _read_lists(product_ids: Sequence[int]) -> dict[str, dict[int, set[int]]]:
    """Return the ids in each list of these products, by the list's name and the product's id."""
    lists: dict[str, dict[int, set[int]]] = {}
    for name, column in RELATIONS.items():
        lists[name] = defaultdict(set)
        for ids in batches(product_ids, NAMES_PER_QUERY):
            links = getattr(Product, name).through.objects.filter(product__in=ids)
            for product_id, listed_id in links.values_list("product_id", column):
                lists[name][product_id].add(listed_id)
    return lists


def _write_lists(rows: Sequence[_Row], old: Mapping[str, Mapping[int, set[int]]]) -> set[int]:
    """Replace the lists that differ, and return the ids of their products."""
    changed: set[int] = set()
    for name, column in RELATIONS.items():
        through = getattr(Product, name).through
        wanted = {row.product.pk: row.lists[name] for row in rows if name in row.lists}
        wanted = {pk: ids for pk, ids in wanted.items() if ids != old[name].get(pk, set())}
        for ids in batches(wanted, NAMES_PER_QUERY):
            through.objects.filter(product__in=ids).delete()
        links = [through(product_id=pk, **{column: listed}) for pk, ids in wanted.items() for listed in sorted(ids)]
        through.objects.bulk_create(links, batch_size=1000)
        changed |= wanted.keys()
    return changed
