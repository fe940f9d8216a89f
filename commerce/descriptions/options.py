"""Tones and lengths that the admin pages offer, with their translated labels."""

from collections.abc import Mapping

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

# The tones of the built-in model. The API accepts any other for models that know it.
TONES: Mapping[str, str | Promise] = {
    "": _("Plain"),
    "friendly": _("Friendly"),
    "formal": _("Formal"),
    "playful": _("Playful"),
    "luxurious": _("Luxurious"),
}
LENGTHS: Mapping[int, str | Promise] = {40: _("Short"), 80: _("Medium"), 150: _("Long")}  # by maximum words
