"""Factory of drafts."""

from typing import Any

from django.utils import timezone

from commerce.catalog.models import Product
from commerce.descriptions.models import DescriptionDraft
from commerce.descriptions.services import save_draft
from commerce.descriptions.text.prompts import DescriptionRequest
from shared.accounts.models import User

SAMPLE_TEXT = "The Velmo lamp glows."


def make_draft(product: Product, author: User, text: str = SAMPLE_TEXT, **options: Any) -> DescriptionDraft:
    request = DescriptionRequest(product_name=product.name, **options)
    return save_draft(product=product, author=author, request=request, text=text, now=timezone.now())
