"""Landmarks of the admin's pages, by which screen readers go from part to part."""

from django.template import Library
from django.utils.translation import gettext as _

register = Library()


@register.filter(is_safe=True)
def add_landmarks(page: str) -> str:
    """Return a page of the theme with a main landmark, for which it has a `<div>`, and with names of the sidebar."""
    name = _("Sidebar")  # a word that Django translates
    for element, attributes in (
        ('<div id="main"', 'role="main"'),
        ('<nav id="nav-sidebar-inner"', f'aria-label="{name}"'),
        ('<div id="nav-sidebar-apps"', f'data-simplebar-aria-label="{name}"'),  # else "scrollable content"
    ):
        page = page.replace(element, f"{element} {attributes}", 1)
    return page
