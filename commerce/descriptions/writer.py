"""Data of the description writer in the admin: tones and lengths, proposed keywords, and drafts with marks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from commerce.catalog.models import Product
from commerce.descriptions.models import DescriptionDraft
from commerce.descriptions.text.marks import TextPart, mark_phrases
from commerce.descriptions.text.prompts import MAX_KEYWORD_LENGTH, PLAIN_MODELS, DescriptionRequest, is_english
from commerce.descriptions.text.rules import missing_facts, unsupported_phrases

MAX_PROPOSED_KEYWORDS = 8
# The tones of the built-in model. The API accepts any other for models that know it.
TONES: Mapping[str, str | Promise] = {
    "": _("Plain"),
    "friendly": _("Friendly"),
    "formal": _("Formal"),
    "playful": _("Playful"),
    "luxurious": _("Luxurious"),
}
LENGTHS: Mapping[int, str | Promise] = {40: _("Short"), 80: _("Medium"), 150: _("Long")}  # by maximum words


def propose_keywords(product: Product) -> list[str]:
    """Return keywords for a description: the product's attribute values, and its unit if that is an amount.

    The name and each other are not repeated, and keywords have no commas, which separate them on the form.
    """
    proposed = [
        fact
        for fact in dict.fromkeys(product_facts(product))
        if "," not in fact and len(fact) <= MAX_KEYWORD_LENGTH and fact.lower() not in product.name.lower()
    ]
    return proposed[:MAX_PROPOSED_KEYWORDS]


def product_facts(product: Product) -> list[str]:
    """Return the product's attribute values and its unit as they read in a text, such as "size M"."""
    links = product.value_links.select_related("value__attribute").order_by("pk")
    facts = [_read_value(link.value.attribute.name, link.value.value, product.language) for link in links]
    return [*facts, product.unit] if any(map(str.isdigit, product.unit)) else facts


def _read_value(attribute: str, value: str, language: str) -> str:
    """Return a value, after the name of its attribute if it says little by itself, as M and 38 do."""
    if any(map(str.islower, value)):
        return value
    return f"{attribute.lower() if is_english(language) else attribute} {value}"


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
