"""Static files in a project that nobody has run `collectstatic` for, and in one where it was run."""

import re
from pathlib import Path

import pytest
from asgiref.sync import iscoroutinefunction
from django.core.management import call_command
from django.http import HttpRequest, HttpResponse
from django.test import Client
from pytest_django import Settings

from shared.serving.static_files import StaticFilesMiddleware

STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "shared.serving.static_files.StaticFilesStorage"},
}
PAGE = "/admin/login/"


@pytest.fixture
def as_installed(settings: Settings, tmp_path: Path) -> Path:
    """The settings of a server, with nothing collected yet."""
    settings.STORAGES = STORAGES
    settings.WHITENOISE_AUTOREFRESH = settings.WHITENOISE_USE_FINDERS = False
    settings.STATIC_ROOT = tmp_path / "static"
    return tmp_path / "static"


def assets_of(page: str) -> list[str]:
    found = re.findall(r'(?:<script[^>]* src|<link[^>]* href)="(/static/[^"]+)"', page)
    assert len(found) > 3
    return found


@pytest.mark.django_db
def test_uncollected_pages_and_what_they_load_are_there(as_installed: Path):
    client = Client()
    page = client.get(PAGE)

    assert page.status_code == 200
    for asset in assets_of(page.content.decode()):
        answer = client.get(asset)
        assert answer.status_code == 200, asset
        answer.close()
    assert not as_installed.exists()


@pytest.mark.django_db
def test_collected_files_have_names_that_change_with_their_content_and_are_kept_for_ever(as_installed: Path):
    call_command("collectstatic", "--noinput", verbosity=0)
    client = Client()
    style = next(asset for asset in assets_of(client.get(PAGE).content.decode()) if asset.endswith(".css"))

    answer = client.get(style)

    assert re.search(r"\.[0-9a-f]{12}\.css$", style)
    assert answer.status_code == 200
    assert "immutable" in answer.headers["Cache-Control"]
    answer.close()


@pytest.mark.parametrize("path", ["/static/admin/css/base.css", "/elsewhere"])
async def test_under_asgi_no_thread_is_taken_for_what_is_no_file(as_installed: Path, path: str):
    async def view(request: HttpRequest) -> HttpResponse:
        return HttpResponse(b"a view")

    middleware = StaticFilesMiddleware(view)
    request = HttpRequest()
    request.method, request.path_info = "GET", path
    answer = await middleware(request)

    assert iscoroutinefunction(middleware)
    assert answer.streaming == path.startswith("/static/")
    answer.close()
