"""Drafts to test with."""

from typing import Any

from django.utils import timezone

from commerce.catalog.models import Product
from commerce.descriptions.models import DescriptionDraft
from commerce.descriptions.prompts import Brief
from commerce.descriptions.services import save_draft
from shared.accounts.models import User

GLOWS = "The Velmo lamp glows."


def draft_for(product: Product, author: User, text: str = GLOWS, **wishes: Any) -> DescriptionDraft:
    brief = Brief(product_name=product.name, **wishes)
    return save_draft(product=product, author=author, brief=brief, text=text, now=timezone.now())
