"""The part of the product form that writes descriptions."""

from typing import Any

from django.template import Library
from django.utils import timezone

from commerce.catalog.models import Product
from commerce.descriptions import allowances
from commerce.descriptions.admin_words import LENGTHS, TONES
from commerce.descriptions.allowances import Holder
from commerce.descriptions.models import DescriptionDraft

SHOWN_DRAFTS = 5

register = Library()


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
