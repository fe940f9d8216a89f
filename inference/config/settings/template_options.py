"""Reader of the setting STOA_TEMPLATE_OPTIONS."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from django.core.exceptions import ImproperlyConfigured

_ENTRY = re.compile(r"(?P<model>.+):(?P<option>[A-Za-z_][A-Za-z0-9_]{0,63})")


def read_template_options(entries: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """Return the names of options by model. Raise ImproperlyConfigured for a wrong entry."""
    options: dict[str, set[str]] = defaultdict(set)
    for entry in entries:
        match = _ENTRY.fullmatch(entry)
        if match is None:
            raise ImproperlyConfigured(
                f"STOA_TEMPLATE_OPTIONS has {entry!r}: give model:option, as in my-model:language, with commas between."
            )
        options[match["model"]].add(match["option"])
    return {model: frozenset(names) for model, names in options.items()}
