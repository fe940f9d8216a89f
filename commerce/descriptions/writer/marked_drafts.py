"""Drafts whose texts are marked at what is not in the product's data."""

from collections.abc import Iterable
from dataclasses import dataclass

from commerce.catalog.models import Product
from commerce.descriptions.models import DescriptionDraft
from commerce.descriptions.text.marks import TextPart, mark_phrases
from commerce.descriptions.text.prompts import PLAIN_MODELS, DescriptionRequest
from commerce.descriptions.text.rules import missing_facts, unsupported_phrases
from commerce.descriptions.writer.keywords import product_facts


@dataclass(frozen=True, kw_only=True)
class MarkedDraft:
    """A draft with its text in parts, what in it is not in the product's data, and what it was to say and does not."""

    draft: DescriptionDraft
    parts: list[TextPart]
    unsupported: list[str]
    missing: list[str]


def mark_drafts(product: Product, drafts: Iterable[DescriptionDraft]) -> list[MarkedDraft]:
    """Return the drafts with marks at what neither their request nor the product's data says."""
    facts = tuple(product_facts(product))
    return [_mark(product, draft, facts) for draft in drafts]


def _mark(product: Product, draft: DescriptionDraft, facts: tuple[str, ...]) -> MarkedDraft:
    request = DescriptionRequest(product_name=product.name, keywords=tuple(draft.keywords), language=draft.language)
    data = DescriptionRequest(product_name=product.name, keywords=(*draft.keywords, *facts), language=draft.language)
    is_plain = draft.model in PLAIN_MODELS and draft.text == draft.written  # an editor's words are no model's
    unsupported = unsupported_phrases(draft.text, data, is_plain=is_plain)
    return MarkedDraft(
        draft=draft,
        parts=mark_phrases(draft.text, unsupported),
        unsupported=unsupported,
        missing=missing_facts(draft.text, request),
    )
