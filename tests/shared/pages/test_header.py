"""The header of the pages of both servers, and the same links in the sidebar of their admins."""

import re

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from shared.accounts.roles import Role
from shared.accounts.services import create_user, set_inference_access

pytestmark = [pytest.mark.each_project, pytest.mark.django_db]
BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
PAGES = {"commerce": ["/", "/shop/", "/api/docs"], "inference": ["/", "/playground", "/docs"]}
LINK = re.compile(r'<li><a href="([^"]+)"(?: aria-current="(\w+)")?>([^<]+)</a>')
SHOP = {"Shop": "/shop/", "Shop admin": "/admin/", "Shop API": "/api/docs"}
MODEL_SERVER = {"Model server": "/", "Playground": "/playground", "Model server API": "/docs"}


def header_of(client: Client, path: str) -> str:
    page = client.get(path, headers=BROWSER).content.decode()
    return page[page.index('<header class="site-header"') : page.index("</header>")]


def links_of(client: Client, path: str = "/") -> dict[str, str]:
    return {title: url for url, _, title in LINK.findall(header_of(client, path))}


def client_as(role: Role, *, may_run_inference: bool = True) -> Client:
    user = create_user(
        email="ada@example.com", name="Ada", password="a lamp for every room", role=role, now=timezone.now()
    )
    if not may_run_inference:
        set_inference_access(user=user, is_allowed=False)
    client = Client()
    client.force_login(user)
    return client


def test_every_page_has_the_same_links_and_marks_its_own(settings: Settings):
    settings.SHOP_PUBLIC_URL, settings.MODEL_SERVER_PUBLIC_URL = "https://shop.example/", "https://models.example"
    if settings.PROJECT == "commerce":
        expected = SHOP | {title: f"https://models.example{path}" for title, path in MODEL_SERVER.items()}
    else:
        expected = {title: f"https://shop.example{path}" for title, path in SHOP.items()} | MODEL_SERVER
    for path in PAGES[settings.PROJECT]:
        assert list(links_of(Client(), path).items()) == list(expected.items()), path
        current = [(url, value) for url, value, _ in LINK.findall(header_of(Client(), path)) if value]
        is_linked = path in expected.values()
        assert current == ([(path, "page")] if is_linked else []), path


def test_the_other_server_is_not_linked_without_its_url():
    assert links_of(Client()) == (SHOP if settings.PROJECT == "commerce" else MODEL_SERVER)


@pytest.mark.parametrize(
    ("role", "admin", "has_playground"),
    [
        (Role.SUPER_ADMIN, "/admin/", True),
        (Role.MODERATOR, "/admin/", False),
        (Role.STORE_OWNER, "/admin/dashboard/", True),
        (Role.STAFF, "/admin/dashboard/", True),
        (Role.CUSTOMER, None, False),
    ],
)
def test_a_user_gets_the_links_that_the_role_may_use(
    settings: Settings, role: Role, admin: str | None, has_playground: bool
):
    settings.SHOP_PUBLIC_URL = settings.MODEL_SERVER_PUBLIC_URL = "https://other.example"
    links = links_of(client_as(role))

    assert links.get("Shop admin", "").removeprefix("https://other.example") == (admin or "")
    assert ("Playground" in links) == has_playground


def test_an_owner_without_the_permission_gets_no_playground(settings: Settings):
    settings.MODEL_SERVER_PUBLIC_URL = "https://models.example"

    assert "Playground" not in links_of(client_as(Role.STORE_OWNER, may_run_inference=False))


def test_the_header_says_who_is_signed_in_on_every_page_with_a_session():
    client = client_as(Role.SUPER_ADMIN)
    for path in (path for path in PAGES[settings.PROJECT] if path != "/playground"):
        assert "Not signed in" in header_of(Client(), path), path
        assert f'href="/admin/login/?next={path}"' in header_of(Client(), path)
        assert 'Signed in as <a href="/admin/">ada@example.com</a>' in header_of(client, path), path


def test_who_follows_the_header_to_sign_in_reads_who_may():
    audiences = {
        "commerce": "For shop owners, their staff, moderators and super admins.",
        "inference": "For super admins.",
    }
    (path,) = re.findall(r'<a href="([^"]+)">Sign in to the admin</a>', header_of(Client(), "/"))
    page = Client().get(path).content.decode()
    assert audiences[settings.PROJECT] in page[page.index("<form") - 500 : page.index("<form")]


def test_the_header_has_nothing_inline():
    for path in PAGES[settings.PROJECT]:
        assert not re.search(r"<script>|<style|\sstyle=|\son\w+=", header_of(Client(), path)), path


def test_the_sidebar_of_the_admin_has_the_same_links(settings: Settings):
    settings.SHOP_PUBLIC_URL, settings.MODEL_SERVER_PUBLIC_URL = "https://shop.example/", "https://models.example"
    client = client_as(Role.SUPER_ADMIN)
    page = client.get("/admin/").content.decode()
    places = [page.find(f'href="{url}"') for url in links_of(client).values() if url not in ("/", "/admin/")]

    assert -1 not in places
    assert places == sorted(places)


def test_the_page_of_the_api_refuses_writes_as_json():
    response = Client().post(settings.DOCS_PATH)

    assert response.status_code == 405
    assert response.headers["Content-Type"].startswith("application/json")
