"""Links between the pages of the shop and of the model server."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from shared.accounts.models import User
from shared.accounts.roles import ROLE_PERMISSIONS, Permission, Role

ADMIN = "/admin/"
DASHBOARD = "/admin/dashboard/"  # all that owners and staff of shops may use of the shop's admin
SHOP_ROLES = (Role.STORE_OWNER, Role.STAFF)


@dataclass(frozen=True)
class PageLink:
    """A link to a page. `current` is the value of `aria-current`: `page` on that page, `true` on pages below it."""

    title: str | Promise
    url: str
    current: str = ""


def site_links(request: HttpRequest) -> list[PageLink]:
    """Return links to the pages of both servers, without those that the signed-in user may not use.

    The other server's pages need its public URL.
    """
    user = signed_in_user(request)
    servers = [
        ("commerce", settings.SHOP_PUBLIC_URL, _shop_pages(user)),
        ("inference", settings.MODEL_SERVER_PUBLIC_URL, _model_server_pages(user)),
    ]
    links: list[PageLink] = []
    for project, public_url, pages in servers:
        if project == settings.PROJECT:
            links += [PageLink(title, path, _current(request.path, path)) for title, path in pages]
        elif public_url:
            links += [PageLink(title, public_url.rstrip("/") + path) for title, path in pages]
    return links


def sidebar_group(request: HttpRequest) -> dict[str, Any]:
    """Return the links as a group of the admin's sidebar, in the format of unfold."""
    items = [{"title": link.title, "link": link.url, "active": False} for link in site_links(request)]
    return {"title": "Stoa", "items": items}


def signed_in_user(request: HttpRequest) -> User | None:
    user = getattr(request, "user", None)
    return user if isinstance(user, User) else None


def admin_path(user: User | None) -> str:
    """Return the path of this server's admin, or of the part of it that the user may use."""
    is_of_shop = user is not None and user.role in SHOP_ROLES
    return DASHBOARD if is_of_shop and settings.PROJECT == "commerce" else ADMIN


def _shop_pages(user: User | None) -> Iterator[tuple[str | Promise, str]]:
    yield _("Shop"), "/shop/"
    if user is None or user.role != Role.CUSTOMER:
        yield _("Shop admin"), DASHBOARD if user and user.role in SHOP_ROLES else ADMIN
    yield _("Shop API"), "/api/docs"


def _model_server_pages(user: User | None) -> Iterator[tuple[str | Promise, str]]:
    yield _("Model server"), "/"
    if user is None or (user.may_run_inference and Permission.RUN_INFERENCE in ROLE_PERMISSIONS[Role(user.role)]):
        yield _("Playground"), "/playground"
    yield _("Model server API"), "/docs"


def _current(shown: str, path: str) -> str:
    is_below = path != "/" and shown.startswith(path)
    return "page" if shown == path else "true" if is_below else ""
