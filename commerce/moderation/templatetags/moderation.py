"""Template filters of the moderators' pages: the label of a value, and an age in words."""

from datetime import timedelta

from django.template import Library

from commerce.moderation.labels import ACTIONS, APPEAL_OUTCOMES, STANDINGS, Text, short_age

register = Library()


@register.filter
def action_label(action: str) -> Text:
    return ACTIONS[action]


@register.filter
def appeal_label(outcome: str) -> Text:
    return APPEAL_OUTCOMES[outcome]


@register.filter
def standing_label(standing: str) -> Text:
    return STANDINGS[standing]


@register.filter
def in_words(age: timedelta | None) -> str:
    return "" if age is None else short_age(age)
