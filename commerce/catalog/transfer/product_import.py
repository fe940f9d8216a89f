"""Import of a CSV file's products into a shop, all of them or none."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from commerce.webhooks.events import announce_product_updates
from shared.accounts.models import User
from shared.api.csv_files import LineErrors
from shared.api.errors import ApiError, ValidationFailed
from shared.api.query_params import DEFAULT_LANGUAGE, parse_integer
from shared.api.slugs import SUFFIX, normalize_slug, numbered_slugs, save_all_with_unique_slugs, slug_base
from shared.querysets import batches

DERIVED_COLUMNS = ("price", "sale_price", "quantity")  # of a variable product: they follow from its variations
WRITTEN_COLUMNS = (*COLUMNS, "image_id")
RELATIONS = {"categories": "category_id", "tags": "tag_id", "gallery": "attachment_id"}  # columns of their tables
NAMES_PER_QUERY = 1_000
MAX_CANDIDATES = 10  # products that one name finds; numbered suffixes lead to up to eight


@dataclass(frozen=True, kw_only=True)
class WrittenCounts:
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
def import_products(*, actor: User, shop_id: int, products: Sequence[CsvProduct], now: datetime) -> WrittenCounts:
    """Create the products that the shop does not have, and change the columns that the file has of those it has.

    Nothing is deleted, and importing the same file again changes nothing. A product is matched by id, else by slug,
    else by SKU, else by a slug that got a suffix, else by name, within its language. Raises ApiError 403, 409, and
    ValidationFailed with keys such as `csv.3`.
    """
    shop = require_managed_shop(actor=actor, shop_id=shop_id)
    errors = LineErrors()
    rows = _match(shop, products, errors)
    # After the products, as orders do; two imports at once would both create the same products.
    Shop.objects.select_for_update(no_key=True).get(pk=shop_id)
    _require_still_new(shop, rows)
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
    announce_product_updates([row.product for row in rows if row.product.pk in changed | relisted], now=now)
    return WrittenCounts(created=len(new), changed=len(changed) + len(relisted))


def _match(shop: Shop, products: Sequence[CsvProduct], errors: LineErrors) -> list[_Row]:
    """Return a row for each line, with the product that it names, locked, or a new one."""
    keys = {sent.line: _ProductKey.of(sent.values) for sent in products}
    found = _find_all(shop, {sent.line: sent.values.get("id") for sent in products}, keys)
    locked = _lock(shop, {match for match in found.values() if isinstance(match, int)})
    rows, lines = [], _Lines()
    for sent in products:
        match, key = found[sent.line], keys[sent.line]
        if isinstance(match, str):
            errors.add(sent.line, [match])
            continue
        product = Product(shop=shop, price=0, language=key.language) if match is None else locked[match]
        if sent.values.get("language", product.language) != product.language:
            errors.add(sent.line, ["language: The language never changes."])
        elif (first := lines.add(sent.line, product, replace(key, language=product.language))) is not None:
            errors.add(sent.line, [f"Line {first} names the same product."])
        else:
            rows.append(_Row(sent.line, dict(sent.values), product))
    return rows


def _find_all(
    shop: Shop, ids: Mapping[int, int | None], keys: Mapping[int, "_ProductKey"]
) -> dict[int, int | str | None]:
    """Return for each line the id of its product, None for a new one, or what is wrong."""
    own = set[int]()
    for some in batches({pk for pk in ids.values() if pk is not None}, NAMES_PER_QUERY):
        own |= set(Product.objects.live().filter(shop=shop, pk__in=some).values_list("pk", flat=True))
    matcher = _ProductMatcher(shop, [keys[line] for line, pk in ids.items() if pk is None])
    found: dict[int, int | str | None] = {}
    for line, pk in ids.items():
        if pk is not None:
            found[line] = pk if pk in own else "id: This shop has no product with this id."
        else:
            found[line] = matcher.find(keys[line])
    taken = {match for match in found.values() if isinstance(match, int)}
    return {line: matcher.guess(keys[line], taken) if match is None else match for line, match in found.items()}


def _lock(shop: Shop, ids: Collection[int]) -> dict[int, Product]:
    """Return the products, locked in the order in which orders lock them."""
    locked: dict[int, Product] = {}
    of_shop = Product.objects.live().filter(shop=shop)
    for some in batches(sorted(ids), NAMES_PER_QUERY):
        for product in of_shop.select_for_update(of=("self",)).filter(pk__in=some).order_by("pk"):
            locked[product.pk] = product
    if len(locked) < len(ids):
        raise ApiError(409, "Another request has deleted one of these products meanwhile. Import again.")
    return locked


@dataclass(frozen=True)
class _ProductKey:
    """Names that a line has for its product; an empty text is none."""

    language: str
    slug: str  # as it was sent
    base: str  # as a new product gets it, but for a suffix
    sku: str
    name: str

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "_ProductKey":
        slug = values.get("slug", "")
        return cls(
            language=values.get("language", DEFAULT_LANGUAGE),
            slug=normalize_slug(slug),
            base=slug_base(slug),
            sku=values.get("sku", ""),
            name=values.get("name", ""),
        )

    @property
    def is_name_alone(self) -> bool:
        return not self.base and not self.sku


class _Lines:
    """The lines so far, by what they name."""

    def __init__(self) -> None:
        self._first: dict[Any, tuple[int, bool, bool]] = {}

    def add(self, line: int, product: Product, key: _ProductKey) -> int | None:
        """Return the line that names the same product, or None. New products differ in slug and SKU, or in name."""
        this = (line, product.pk is None, key.is_name_alone)
        for name, text in (("id", product.pk), ("slug", key.base), ("sku", key.sku), ("name", key.name)):
            if not text:
                continue
            first = self._first.setdefault((name, text, key.language), this)
            is_of_new = (first[1] or this[1]) and (name != "name" or first[2] or this[2])
            if first is not this and (name == "id" or is_of_new):
                return first[0]
        return None


class _ProductMatcher:
    """The ids of the shop's products that a file names, by each of their names."""

    def __init__(self, shop: Shop, keys: Collection[_ProductKey]) -> None:
        self._ids: dict[Any, list[int]] = defaultdict(list)
        wanted = {sought for key in keys for sought in (*_sure(key), *_likely(key))}
        suffixed = {slug for key in keys if key.base for slug in (key.slug, key.base, *numbered_slugs(key.base))}
        texts = {"slug": suffixed, "sku": {key.sku for key in keys}, "name": {key.name for key in keys}}
        of_shop = Product.objects.live().filter(shop=shop).order_by("pk")
        for column in texts:
            for some in batches(texts[column] - {""}, NAMES_PER_QUERY):
                found = of_shop.filter(**{f"{column}__in": some})
                for pk, *row in found.values_list("pk", "slug", "sku", "name", "language").iterator():
                    for sought in wanted.intersection(_found_by(*row)):
                        ids = self._ids[sought]
                        if pk not in ids and len(ids) < MAX_CANDIDATES:
                            ids.append(pk)

    def find(self, key: _ProductKey) -> int | str | None:
        """Return the product that has the slug, else the one with the SKU, or what is wrong."""
        if key.is_name_alone and not key.name:
            return "The line has no id, slug, SKU or name."
        return self._only(_sure(key), set())

    def guess(self, key: _ProductKey, taken: Collection[int]) -> int | str | None:
        """Return the product, not among those in `taken`, whose slug got a suffix, else the one with the name."""
        return self._only(_likely(key), set() if key.is_name_alone else taken)

    def _only(self, all_sought: Iterable[tuple[str, ...]], taken: Collection[int]) -> int | str | None:
        for sought in all_sought:
            ids = [pk for pk in self._ids.get(sought, ()) if pk not in taken]
            if len(ids) > 1:
                return f"{sought[0]}: The shop has several such products. Name one by its id or slug."
            if ids:
                return ids[0]
        return None


def _sure(key: _ProductKey) -> list[tuple[str, ...]]:
    """Return in which ways a line finds a product for certain, the best first."""
    sought = [("slug", slug, key.language) for slug in dict.fromkeys((key.slug, key.base)) if key.base]
    return [*sought, ("sku", key.sku, key.language)] if key.sku else list(sought)


def _likely(key: _ProductKey) -> list[tuple[str, ...]]:
    """Return in which further ways a line finds a product, the best first.

    It is none with another SKU, nor one whose slug was not made from the slug of the line: those are namesakes.
    """
    sku = "none" if key.sku else "any"
    if key.base:
        return [("slug", key.base, key.language, sku, name) for name in dict.fromkeys((key.name, ""))]
    return [("name", key.name, key.language, sku)] if key.name else []


def _found_by(slug: str, sku: str, name: str, language: str) -> Iterator[tuple[str, ...]]:
    """Yield all ways to find a product."""
    yield from (("slug", slug, language), ("sku", sku, language))
    suffix = SUFFIX.search(slug)
    for sought in ("any",) if sku else ("any", "none"):
        yield "name", name, language, sought
        if suffix:
            base = slug[: suffix.start()]
            yield "slug", base, language, sought, name
            if len(suffix[0]) == 2:  # names alone lead to those with random letters
                yield "slug", base, language, sought, ""


def _require_still_new(shop: Shop, rows: Sequence[_Row]) -> None:
    """Raise ApiError 409 if the shop has got one of these new products meanwhile."""
    keys = {row.line: _ProductKey.of(row.values) for row in rows if row.is_new}
    matcher, taken = _ProductMatcher(shop, list(keys.values())), {row.product.pk for row in rows if not row.is_new}
    if any(matcher.find(key) or matcher.guess(key, taken) for key in keys.values()):
        raise ApiError(409, "Another request has created one of these products meanwhile. Import again.")


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
