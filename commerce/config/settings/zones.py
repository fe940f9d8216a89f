"""Time zones from environment variables."""

from zoneinfo import available_timezones

from django.core.exceptions import ImproperlyConfigured

from shared.environment import Environment

# PostgreSQL reads these names as abbreviations, which have no daylight saving time.
ABBREVIATIONS = {"CET", "EET", "MET", "WET"}


def time_zone(env: Environment, name: str) -> str:
    """Return the name of a time zone. Raises ImproperlyConfigured for an unknown one."""
    zone = env.str(name)
    if zone not in available_timezones() - ABBREVIATIONS:
        raise ImproperlyConfigured(f"{name} is {zone!r}: set it to a time zone such as Europe/Dublin.")
    return zone
