"""The middleware in front of Django knows every endpoint that hashes a password for anonymous users."""

import pytest
from django.urls import get_resolver

from commerce.config.asgi import PASSWORD_PATHS
from commerce.descriptions.jobs.views import WebhookView
from shared.accounts.views import RefreshView, VerifyEmailView
from shared.api.viewsets import PublicView

pytestmark = pytest.mark.no_database

WITHOUT_A_HASH = {RefreshView, VerifyEmailView, WebhookView}


def test_a7_every_public_route_that_hashes_a_password_is_limited() -> None:
    api = next(entry for entry in get_resolver().url_patterns if str(entry.pattern) == "api/")
    routes = [route for included in api.url_patterns for route in getattr(included, "url_patterns", [])]
    public = {
        f"/api/{route.pattern}"
        for route in routes
        if issubclass(view := getattr(route.callback, "view_class", object), PublicView) and view not in WITHOUT_A_HASH
    }
    assert public
    assert public | {"/admin/login/", "/admin/dashboard/sign-in/"} == set(PASSWORD_PATHS)
