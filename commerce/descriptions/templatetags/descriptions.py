"""The part of the product form that writes descriptions."""

from typing import Any

from django import template
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from commerce.catalog.models import Product
from commerce.descriptions import allowances
from commerce.descriptions.allowances import Holder
from commerce.descriptions.models import DescriptionDraft

SHOWN_DRAFTS = 5
# What the built-in model knows; another model may be asked for any by the API.
TONES: dict[str, str | Promise] = {
    "": _("Plain"),
    "friendly": _("Friendly"),
    "formal": _("Formal"),
    "playful": _("Playful"),
    "luxurious": _("Luxurious"),
}
LENGTHS: dict[int, str | Promise] = {40: _("Short"), 80: _("Medium"), 150: _("Long")}

register = template.Library()


@register.inclusion_tag("descriptions/_writer.html")
def description_writer(product: Product) -> dict[str, Any]:
    """For a product that is saved already."""
    drafts = DescriptionDraft.objects.filter(product=product).open().order_by("-created_at", "-id")
    return {
        "product": product,
        "drafts": drafts[:SHOWN_DRAFTS],
        "allowance": allowances.read(holder=Holder(shop_id=product.shop_id), now=timezone.now()),
        "tones": TONES.items(),
        "lengths": LENGTHS.items(),
    }
