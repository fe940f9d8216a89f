"""Access to the dashboard, and that its sessions open no other admin page."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import URLResolver, reverse
from django.utils import timezone

from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import create_user, deactivate_user
from tests.commerce.analytics.factories import Market
from tests.commerce.conftest import make_user

DASHBOARD, SIGN_IN, SIGN_OUT = "/admin/dashboard/", "/admin/dashboard/sign-in/", "/admin/dashboard/sign-out/"
CSV = "/admin/dashboard/over-time.csv"
LANDINGS = (DASHBOARD, "/admin/login/", "/admin/")
PASSWORD = "correct horse 42"


def signed_in_client(user: User) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(user)
    return client


def create_shop_user(role: Role) -> User:
    email = f"new-{role.lower()}@example.com"
    return create_user(email=email, name="New", password=PASSWORD, role=role, now=timezone.now())


def admin_routes() -> Iterator[str]:
    """Yield every route of the admin, with 1 for each parameter."""

    def walk(patterns: list[Any], prefix: str) -> Iterator[str]:
        for pattern in patterns:
            route = prefix + str(pattern.pattern)
            if isinstance(pattern, URLResolver):
                yield from walk(pattern.url_patterns, route)
            else:
                yield re.sub(r"\(\?P<\w+>[^)]*\)|<[^>]+>", "1", route.replace("^", "").replace("$", ""))

    yield from walk(admin.site.urls[0], "/admin/")


@pytest.mark.parametrize("role", [Role.STORE_OWNER, Role.STAFF, Role.SUPER_ADMIN])
def test_owners_staff_and_super_admins_sign_in_and_out(db: None, role: Role):
    user, client = create_shop_user(role), Client()
    redirect = client.get(f"{DASHBOARD}?from=2026-01-01")
    assert redirect.headers["Location"] == f"{SIGN_IN}?next=/admin/dashboard/%3Ffrom%3D2026-01-01"
    assert client.get(redirect.headers["Location"]).status_code == 200

    signed_in = client.post(redirect.headers["Location"], {"username": user.email, "password": PASSWORD})
    assert signed_in.headers["Location"] == f"{DASHBOARD}?from=2026-01-01"
    page = client.get(DASHBOARD)
    assert page.status_code == 200
    assert "no-store" in page.headers["Cache-Control"]

    assert client.get(SIGN_OUT).status_code == 405
    assert client.post(SIGN_OUT).headers["Location"] == SIGN_IN
    assert client.get(DASHBOARD).status_code == 302


@pytest.mark.parametrize("role", [Role.STORE_OWNER, Role.STAFF])
def test_shop_users_who_sign_in_at_the_admin_land_on_the_dashboard(db: None, role: Role):
    user, client = create_shop_user(role), Client()

    signed_in = client.post("/admin/login/?next=/admin/", {"username": user.email, "password": PASSWORD}, follow=True)

    assert signed_in.redirect_chain == [("/admin/", 302), (DASHBOARD, 302)]
    assert signed_in.status_code == 200


def test_customers_cannot_sign_in_at_the_admin(db: None):
    user = create_shop_user(Role.CUSTOMER)

    answer = Client().post("/admin/login/?next=/admin/", {"username": user.email, "password": PASSWORD})

    assert answer.status_code == 200
    assert "_auth_user_id" not in answer.client.session


@pytest.mark.parametrize(
    ("page", "audience"),
    [
        (SIGN_IN, "a shop&#x27;s owner or staff, or of a super admin."),
        ("/admin/login/", "a shop&#x27;s owner or staff, of a moderator or of a super admin."),
    ],
)
def test_customers_get_the_same_error_as_wrong_passwords(db: None, page: str, audience: str):
    answers = [
        Client().post(page, {"username": create_shop_user(Role.CUSTOMER).email, "password": PASSWORD}),
        Client().post(page, {"username": create_shop_user(Role.STAFF).email, "password": "wrong"}),
        Client().post(page, {"username": "nobody@example.com", "password": "wrong"}),
    ]
    texts = [re.findall(r"Please enter the e-mail[^<]*", answer.content.decode()) for answer in answers]

    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert texts[0] == texts[1] == texts[2] != []
    assert texts[0][0].strip() == f"Please enter the e-mail and the password of {audience}"
    assert all("_auth_user_id" not in answer.client.session for answer in answers)


def test_sign_in_redirects_to_this_host_only(db: None):
    user = create_shop_user(Role.STORE_OWNER)

    answer = Client().post(f"{SIGN_IN}?next=https://evil.example/", {"username": user.email, "password": PASSWORD})

    assert answer.headers["Location"] == DASHBOARD


def test_sign_ins_to_the_dashboard_are_rate_limited(db: None):
    statuses = [
        Client(raise_request_exception=False).post(SIGN_IN, {"username": f"u{number}@example.com", "password": "x"})
        for number in range(12)
    ]

    assert [answer.status_code for answer in statuses] == [200] * 10 + [429] * 2


def test_a_form_of_another_site_signs_nobody_out(db: None):
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user(Role.STAFF))

    assert client.post(SIGN_OUT).status_code == 403
    assert client.get(DASHBOARD).status_code == 200


@pytest.mark.parametrize("path", [DASHBOARD, CSV, "/admin/dashboard/shops/"])
def test_customers_are_refused_and_anonymous_users_redirected(market: Market, path: str):
    assert signed_in_client(market.customers[0]).get(path).status_code == 403
    assert Client().get(path).headers["Location"].startswith(SIGN_IN)
    assert signed_in_client(market.shops[0].owner).post(path).status_code == 405


def test_deactivated_users_and_new_customers_lose_access_at_once(market: Market):
    owner = market.shops[0].owner
    client = signed_in_client(owner)
    assert client.get(DASHBOARD).status_code == 200
    User.objects.filter(pk=owner.pk).update(role=Role.CUSTOMER)
    assert client.get(DASHBOARD).status_code == 403
    User.objects.filter(pk=owner.pk).update(role=Role.STORE_OWNER)
    deactivate_user(user=owner)
    assert client.get(DASHBOARD).status_code == 302


@pytest.mark.parametrize("role", [Role.STORE_OWNER, Role.STAFF])
def test_shop_users_can_open_no_other_admin_page(db: None, role: Role):
    client, routes = signed_in_client(make_user(role, "shopkeeper")), sorted(set(admin_routes()))
    assert len(routes) > 100

    for route in routes:
        for method in ("get", "post"):
            answer = getattr(client, method)(route)
            if route == "/admin/login/":
                assert 'id="login-form"' in answer.content.decode()
                continue
            if route == reverse("admin:accounts_user_second_factor"):  # which is about themselves alone
                assert answer.status_code == 200
                continue
            assert answer.status_code in (302, 403, 405), (method, route)
            if answer.status_code == 302:
                assert answer.headers["Location"].split("?")[0] in LANDINGS, (method, route)
