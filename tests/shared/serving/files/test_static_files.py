"""Static files before and after `collectstatic`."""

import re
import warnings
from pathlib import Path

import django
import pytest
from asgiref.sync import iscoroutinefunction
from django.core.management import call_command
from django.http import HttpRequest, HttpResponse
from django.test import Client
from pytest_django import Settings

from shared.serving.files.static_files import StaticFilesMiddleware

STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "shared.serving.files.static_files.StaticFilesStorage"},
}
PAGE = "/admin/login/"
STYLE = Path(django.__file__).parent / "contrib/admin/static/admin/css/base.css"


@pytest.fixture
def uncollected_static_root(settings: Settings, tmp_path: Path) -> Path:
    """Use the settings of a server with nothing collected yet."""
    settings.STORAGES = STORAGES
    settings.WHITENOISE_AUTOREFRESH = settings.WHITENOISE_USE_FINDERS = False
    settings.STATIC_ROOT = tmp_path / "static"
    return tmp_path / "static"


def assets_of(page: str) -> list[str]:
    found = re.findall(r'(?:<script[^>]* src|<link[^>]* href)="(/static/[^"]+)"', page)
    assert len(found) > 3
    return found


@pytest.mark.django_db
def test_uncollected_static_files_are_served(uncollected_static_root: Path):
    client = Client()
    page = client.get(PAGE)

    assert page.status_code == 200
    for asset in assets_of(page.content.decode()):
        answer = client.get(asset)
        assert answer.status_code == 200, asset
        answer.close()
    assert not uncollected_static_root.exists()


@pytest.mark.django_db
def test_collected_files_have_hashed_names_and_are_cached_forever(uncollected_static_root: Path):
    call_command("collectstatic", "--noinput", verbosity=0)
    client = Client()
    style = next(asset for asset in assets_of(client.get(PAGE).content.decode()) if asset.endswith(".css"))

    answer = client.get(style)

    assert re.search(r"\.[0-9a-f]{12}\.css$", style)
    assert answer.status_code == 200
    assert "immutable" in answer.headers["Cache-Control"]
    answer.close()


async def view(request: HttpRequest) -> HttpResponse:
    return HttpResponse(b"a view")


def request_for(path: str, method: str = "GET", **headers: str) -> HttpRequest:
    request = HttpRequest()
    request.method, request.path_info, request.META = method, path, headers
    return request


@pytest.mark.parametrize("path", ["/static/admin/css/base.css", "/elsewhere"])
async def test_under_asgi_other_requests_use_no_thread(uncollected_static_root: Path, path: str):
    middleware = StaticFilesMiddleware(view)
    answer = await middleware(request_for(path))

    assert iscoroutinefunction(middleware)
    assert answer.streaming == path.startswith("/static/")
    answer.close()


@pytest.mark.parametrize(
    ("request_", "length"),
    [
        (request_for("/static/admin/css/base.css"), STYLE.stat().st_size),
        (request_for("/static/admin/css/base.css", HTTP_RANGE="bytes=10-19"), 10),
        (request_for("/static/admin/css/base.css", "HEAD"), 0),
    ],
    ids=["whole", "a range of it", "its headers alone"],
)
async def test_under_asgi_a_file_is_sent_in_chunks(uncollected_static_root: Path, request_: HttpRequest, length: int):
    answer = await StaticFilesMiddleware(view)(request_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Django warns if it reads a file in full before the first byte
        pieces = [piece async for piece in answer]

    assert sum(map(len, pieces)) == length
    answer.close()
