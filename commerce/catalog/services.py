"""Every write to what the shops sell: products and their variations, stock, ratings."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F

from commerce.attachments.models import Attachment
from commerce.catalog.models import Category, Product, ProductType, Variation
from commerce.catalog.variations import set_variations
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError, ValidationFailed
from shared.api.slugs import save_with_slug

COLUMNS = (
    "type_id", "name", "description", "price", "sale_price", "sku", "quantity", "currency", "is_taxable", "status",
    "product_type", "unit", "height", "width", "length",
)  # fmt: skip
# What a shop's own people may choose; approving and rejecting is the platform's, and what is under review waits for it:
# a rejected product would else be back on sale by way of a draft.
SHOP_STATUSES = frozenset({Product.Status.DRAFT, Product.Status.PUBLISH, Product.Status.UNDER_REVIEW})


@dataclass(frozen=True, kw_only=True)
class StockLine:
    """So many of a product; of a variable one, so many of a variation."""

    product_id: int
    quantity: int
    variation_id: int | None = None


class OutOfStock(ValidationFailed):
    """Less is there than was asked for; `position` is the line's."""

    def __init__(self, position: int) -> None:
        super().__init__({f"products.{position}": ["There is not so much of this product in stock."]})


@transaction.atomic
def take_stock(*, lines: Sequence[StockLine]) -> None:
    """Takes all lines or, raising OutOfStock, none. The order of the locks is the same for everybody, so that two
    orders of the same things wait for each other and never for ever."""
    for key in sorted(wanted := _joined(lines)):
        if not _take(key, wanted[key]):
            raise OutOfStock(next(place for place, line in enumerate(lines) if _key(line) == key))


@transaction.atomic
def return_stock(*, lines: Sequence[StockLine]) -> None:
    """Gives back what `take_stock` took."""
    for key in sorted(given := _joined(lines)):
        _give_back(key, given[key])


def _key(line: StockLine) -> tuple[int, int]:
    return line.product_id, line.variation_id or 0


def _joined(lines: Sequence[StockLine]) -> Counter[tuple[int, int]]:
    joined: Counter[tuple[int, int]] = Counter()
    for line in lines:
        if line.quantity < 1:
            raise ValueError("A line moves at least one piece.")
        joined[_key(line)] += line.quantity
    return joined


def _take(key: tuple[int, int], quantity: int) -> bool:
    """False where there is not enough, or it is deleted."""
    product_id, variation_id = key
    kind = Product.Kind.VARIABLE if variation_id else Product.Kind.SIMPLE
    products = Product.objects.live().filter(pk=product_id, product_type=kind, quantity__gte=quantity)
    if not products.update(**_figures(-quantity)):
        return False
    if not variation_id:
        return True
    variations = Variation.objects.live().filter(pk=variation_id, product_id=product_id, quantity__gte=quantity)
    return bool(variations.update(**_figures(-quantity)))


def _give_back(key: tuple[int, int], quantity: int) -> None:
    """To deleted goods too. A variable product has what its variations have: of one deleted since, or of the time when
    it was a simple one, it gets nothing back to sell."""
    product_id, variation_id = key
    products = Product.objects.filter(pk=product_id)
    product = products.select_for_update(no_key=True).get()
    figures = _figures(quantity)
    if variation_id:
        variations = product.variations.filter(pk=variation_id)
        counts = variations.live().exists()
        variations.update(**figures)
    else:
        counts = product.product_type == Product.Kind.SIMPLE
    if not counts:
        del figures["quantity"]
    products.update(**figures)


def _figures(change: int) -> dict[str, Any]:
    return {"quantity": F("quantity") + change, "sold_quantity": F("sold_quantity") - change}


def change_rating(*, product_id: int, stars: int, count: int) -> None:
    """Adds to the figures of the product's visible reviews: (4, 1) for a new one of four stars, (-4, -1) when it
    goes."""
    Product.objects.filter(pk=product_id).update(
        rating_sum=F("rating_sum") + stars, rating_count=F("rating_count") + count
    )


@transaction.atomic
def create_product(*, actor: User, shop_id: int, values: Mapping[str, Any], now: datetime) -> Product:
    """A new product of a shop that the actor may write to. `values`: the columns, and `slug`, `language`,
    `category_ids`, `image_id`, `gallery_ids`, `variations`. Raises ApiError 403 for another shop, ValidationFailed."""
    shop = Shop.objects.managed_by(actor).filter(pk=shop_id).first()
    if shop is None:
        raise ApiError(403, "You may not write to this shop.")
    product = Product(shop=shop, price=0, language=values.get("language", "en"))  # a variable one's price comes later
    _set_columns(product, actor, values)
    _set_image(product, actor, values)

    def save(slug: str) -> None:
        product.slug = slug
        product.save(force_insert=True)

    save_with_slug(save, Product.objects.filter(language=product.language), values.get("slug") or product.name)
    _set_relations(product, actor, values, now)
    return product


@transaction.atomic
def change_product(*, actor: User, product_id: int, values: Mapping[str, Any], now: datetime) -> Product:
    """Changes what is in `values`, which are as for `create_product`; a product keeps its shop, language and slug, and
    comes to a new currency with all its prices. Raises ApiError 404 unless the actor may write to the product's shop,
    ValidationFailed."""
    product = _locked(actor, product_id)
    _require_new_prices(product, values)
    _set_columns(product, actor, values)
    _set_image(product, actor, values)
    product.save()
    _set_relations(product, actor, values, now)
    return product


@transaction.atomic
def delete_product(*, actor: User, product_id: int, now: datetime) -> Product:
    """It leaves every list; the orders that name it keep it. Raises ApiError 404 as `change_product` does."""
    product = _locked(actor, product_id)
    Product.objects.filter(pk=product.pk).update(deleted_at=now)
    return product


def _locked(actor: User, product_id: int) -> Product:
    """The product, locked, so that an edit and an order do not overwrite each other's quantity."""
    product = Product.objects.select_for_update(of=("self",)).managed_by(actor).filter(pk=product_id).first()
    if product is None:
        raise ApiError(404, "Your shops have no product with this id.")
    return product


def _set_columns(product: Product, actor: User, values: Mapping[str, Any]) -> None:
    before = product.status
    for name in COLUMNS:
        if name in values:
            setattr(product, name, values[name])
    errors: dict[str, list[str]] = {}
    if product.sale_price is not None and product.sale_price > product.price:
        errors["sale_price"] = ["The sale price may not be above the price."]
    if not ProductType.objects.filter(pk=product.type_id).exists():
        errors["type_id"] = ["There is no type with this id."]
    if product.status != before and not _may_set_status(actor, before, product.status):
        errors["status"] = [f"Your shop may not change the status from {before} to {product.status}."]
    if errors:
        raise ValidationFailed(errors)


def _require_new_prices(product: Product, values: Mapping[str, Any]) -> None:
    """What is kept in minor units is another amount in another currency: 49 euro would become 4900 yen."""
    if values.get("currency", product.currency) == product.currency:
        return
    if values.get("product_type", product.product_type) == Product.Kind.VARIABLE:
        prices = values.get("variations")
        has_all = prices is not None and all("sale_price" in price or price.get("id") is None for price in prices)
        needed = "all variations, with `sale_price` where one has an id"
    else:
        has_all = "price" in values and ("sale_price" in values or product.sale_price is None)
        needed = "`price` and `sale_price`"
    if not has_all:
        raise ValidationFailed({"currency": [f"A new currency needs new prices: send {needed} with it."]})


def _may_set_status(actor: User, before: str, after: str) -> bool:
    if actor.role == Role.SUPER_ADMIN:
        return True
    if before == Product.Status.REJECTED:
        return after == Product.Status.UNDER_REVIEW
    return after in SHOP_STATUSES and before != Product.Status.UNDER_REVIEW


def _set_image(product: Product, actor: User, values: Mapping[str, Any]) -> None:
    if "image_id" not in values:
        return
    wanted = values["image_id"]
    if wanted is not None and wanted != product.image_id:
        _require_own_images(actor, "image", {wanted})
    product.image_id = wanted


def _require_own_images(actor: User, field: str, ids: set[int]) -> None:
    own = Attachment.objects.for_user(actor).filter(pk__in=ids, width__isnull=False)
    if own.count() != len(ids):
        raise ValidationFailed({field: ["Name images that you uploaded yourself."]})


def _set_relations(product: Product, actor: User, values: Mapping[str, Any], now: datetime) -> None:
    if "category_ids" in values:
        ids = set(values["category_ids"])
        if Category.objects.filter(pk__in=ids).count() != len(ids):
            raise ValidationFailed({"categories": ["There is no category with one of these ids."]})
        product.categories.set(ids)
    if "gallery_ids" in values:
        ids = set(values["gallery_ids"])
        kept = set(product.gallery.values_list("pk", flat=True))
        _require_own_images(actor, "gallery", ids - kept)
        product.gallery.set(ids)
    if product.product_type == Product.Kind.VARIABLE:
        set_variations(product=product, wanted=values.get("variations"), now=now)
    elif values.get("variations"):
        raise ValidationFailed({"variations": ["Only a variable product has variations."]})
    elif product.lowest_variation_price is not None:  # it was a variable one
        set_variations(product=product, wanted=[], now=now)
