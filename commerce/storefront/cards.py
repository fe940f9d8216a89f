"""Products as the pages show them."""

from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.safestring import SafeString, mark_safe

from commerce.attachments.serializers import attachment_record
from commerce.catalog.admin_money import format_money
from commerce.catalog.models import Product
from commerce.catalog.search.highlights import highlight
from shared.api.query_params import DEFAULT_LANGUAGE


@dataclass(frozen=True)
class ProductCard:
    """A product with its URL, prices, pictures and the words that a search has found in it."""

    product: Product
    request: HttpRequest
    words: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        url = reverse("storefront_product", kwargs={"slug": self.product.slug})
        language = self.product.language
        return url if language == DEFAULT_LANGUAGE else f"{url}?{urlencode({'language': language})}"

    @cached_property
    def picture(self) -> dict[str, str]:
        """Return `original` and `thumbnail` of the main picture; empty without one."""
        return attachment_record(self.product.image, self.request) if self.product.image else {}

    @property
    def price(self) -> str:
        lowest, highest = self.product.min_price, self.product.max_price
        return self.money(lowest) if lowest == highest else f"from {self.money(lowest)}"

    @property
    def former_price(self) -> str:
        """Return the regular price of a product that is on sale, else an empty string."""
        product = self.product
        is_reduced = product.lowest_variation_price is None and product.selling_price < product.price
        return self.money(product.price) if is_reduced else ""

    @property
    def rating(self) -> str:
        return f"{self.product.ratings:.1f}" if self.product.rating_count else ""

    @property
    def name(self) -> SafeString:
        return mark_safe(highlight(self.product.name, self.words))  # noqa: S308  # nosec  escaped by highlight

    @property
    def snippet(self) -> SafeString:
        return mark_safe(highlight(self.product.description, self.words))  # noqa: S308  # nosec  escaped by highlight

    def money(self, amount: int) -> str:
        return format_money(amount, self.product.currency)
