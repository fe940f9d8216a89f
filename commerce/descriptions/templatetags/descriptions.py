"""Template tag of the description writer on the product form."""

from typing import Any

from django.template import Library
from django.utils import timezone

from commerce.catalog.models import Product
from commerce.descriptions import quotas
from commerce.descriptions.models import DescriptionDraft
from commerce.descriptions.options import LENGTHS, TONES
from commerce.descriptions.quotas import QuotaOwner
from commerce.descriptions.writer.keywords import propose_keywords
from commerce.descriptions.writer.marked_drafts import mark_drafts

MAX_SHOWN_DRAFTS = 5

register = Library()


@register.inclusion_tag("descriptions/_writer.html")
def description_writer(product: Product) -> dict[str, Any]:
    """Return the context of the writer for a saved product."""
    drafts = DescriptionDraft.objects.filter(product=product).open().order_by("-created_at", "-id")
    return {
        "product": product,
        "drafts": mark_drafts(product, drafts[:MAX_SHOWN_DRAFTS]),
        "keywords": ", ".join(propose_keywords(product)),
        "quota": quotas.get_status(owner=QuotaOwner(shop_id=product.shop_id), now=timezone.now()),
        "tones": TONES.items(),
        "lengths": LENGTHS.items(),
    }
