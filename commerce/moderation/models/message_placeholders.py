"""Placeholders in the texts that moderators send, such as {product}. Pure functions."""

import re
from collections.abc import Mapping

PLACEHOLDERS = frozenset({"product", "shop", "appeal_days"})
PLACEHOLDER = re.compile(r"\{([^{}\s]{1,40})\}")


def unknown_placeholders(text: str) -> list[str]:
    """Return the placeholders of a text that nothing fills, with their braces."""
    return list(dict.fromkeys(f"{{{name}}}" for name in PLACEHOLDER.findall(text) if name not in PLACEHOLDERS))


def fill_placeholders(text: str, values: Mapping[str, str]) -> str:
    """Return the text with the values of its placeholders. Placeholders inside a value stay as they are."""
    return PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)
