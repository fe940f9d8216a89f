"""Template tag of the description writer."""

from typing import Any

from django.template import Library
from django.urls import reverse
from django.utils import timezone

from commerce.catalog.models import Product
from commerce.descriptions import quotas
from commerce.descriptions.models import DescriptionDraft
from commerce.descriptions.quotas import QuotaOwner
from commerce.descriptions.writer import LENGTHS, TONES, mark_drafts, propose_keywords

MAX_SHOWN_DRAFTS = 5

register = Library()


@register.inclusion_tag("descriptions/_writer.html")
def description_writer(product: Product, routes: str, *, has_draft_list: bool = False) -> dict[str, Any]:
    """Return the context of the writer for a saved product. The names of its `writer_urls` begin with `routes`."""
    drafts = DescriptionDraft.objects.filter(product=product).open().order_by("-created_at", "-id")
    return {
        "product": product,
        "urls": {
            "write": reverse(f"{routes}_write", args=[product.pk]),
            "use": reverse(f"{routes}_use", args=[0]),
            "discard": reverse(f"{routes}_discard", args=[0]),
        },
        "has_draft_list": has_draft_list,
        "drafts": mark_drafts(product, drafts[:MAX_SHOWN_DRAFTS]),
        "keywords": ", ".join(propose_keywords(product)),
        "quota": quotas.get_status(owner=QuotaOwner(shop_id=product.shop_id), now=timezone.now()),
        "tones": TONES.items(),
        "lengths": LENGTHS.items(),
    }
