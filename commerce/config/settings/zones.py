"""Time zones from the environment."""

from zoneinfo import available_timezones

from django.core.exceptions import ImproperlyConfigured
from environ import Env

# PostgreSQL takes these names for abbreviations, which know no summer time.
ABBREVIATIONS = {"CET", "EET", "MET", "WET"}


def time_zone(env: Env, name: str) -> str:
    """The name of a zone, UTC unless one is given. Raises ImproperlyConfigured for any other."""
    zone = str(env.str(name))
    if zone not in available_timezones() - ABBREVIATIONS:
        raise ImproperlyConfigured(f"{name} is {zone!r}: name a time zone, as in Europe/Dublin.")
    return zone
