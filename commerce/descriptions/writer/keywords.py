"""Keywords that a product's attributes propose for its description."""

from commerce.catalog.models import Product
from commerce.descriptions.text.prompts import MAX_KEYWORD_LENGTH, is_english

MAX_PROPOSED_KEYWORDS = 8


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
