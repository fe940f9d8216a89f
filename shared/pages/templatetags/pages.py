"""The header of the pages of both servers."""

from typing import Any

from django.template import Context, Library

from shared.pages.links import admin_path, signed_in_user, site_links

register = Library()


@register.inclusion_tag("pages/_header.html", takes_context=True)
def site_header(context: Context, user_template: str = "") -> dict[str, Any]:
    """Return the context of the header. `user_template` replaces the part that says who is signed in."""
    request = context["request"]
    user = signed_in_user(request)
    return {
        "links": site_links(request),
        "user": user,
        "admin_path": admin_path(user),
        "path": request.path,
        "user_template": user_template,
    }
