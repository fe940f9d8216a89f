"""Requirements of production settings, and Django's deployment checks of a safe environment."""

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings as configured

pytestmark = [pytest.mark.each_project, pytest.mark.no_database]

REPOSITORY = Path(__file__).resolve().parents[2]
SOUND = {
    "SECRET_KEY": secrets.token_urlsafe(48),
    "STOA_JWT_KEY": secrets.token_urlsafe(48),
    "DATABASE_URL": "postgres://stoa:unused@127.0.0.1:9/stoa",
    "STOA_ALLOWED_HOSTS": "shop.example,www.shop.example",
    "STOA_EMAIL_URL": "smtp+tls://stoa:unused@127.0.0.1:9",
    "STOA_EMAIL_FROM": "Stoa <stoa@shop.example>",
    "STOA_STOREFRONT_URL": "https://shop.example",
}


def check(home: Path, **changes: str | None) -> subprocess.CompletedProcess[str]:
    """Run `check --deploy` with the safe environment and these changes; None removes a variable."""
    environment = os.environ | SOUND | {"STOA_HOME": str(home)} | changes
    environment["DJANGO_SETTINGS_MODULE"] = f"{configured.PROJECT}.config.settings.production"
    return subprocess.run(
        [sys.executable, "-m", "django", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=REPOSITORY,
        env={name: value for name, value in environment.items() if value is not None},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_x1_a_safe_environment_has_no_warnings(tmp_path: Path) -> None:
    checked = check(tmp_path)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "no issues (0 silenced)" in checked.stdout


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"STOA_DEBUG": "true"}, "STOA_DEBUG"),
        ({"SECRET_KEY": None}, "SECRET_KEY"),
        ({"SECRET_KEY": "django-insecure-" + secrets.token_urlsafe(48)}, "SECRET_KEY"),
        ({"STOA_JWT_KEY": None}, "STOA_JWT_KEY"),
        ({"STOA_JWT_KEY": "x" * 64}, "STOA_JWT_KEY"),
        ({"STOA_JWT_KEY": SOUND["SECRET_KEY"]}, "STOA_JWT_KEY"),
        ({"STOA_JWT_KEY_FALLBACKS": "changeme"}, "STOA_JWT_KEY_FALLBACKS"),
        ({"STOA_SECRET_KEY_FALLBACKS": secrets.token_urlsafe(48) + ",old"}, "STOA_SECRET_KEY_FALLBACKS"),
        ({"STOA_ALLOWED_HOSTS": "*"}, "STOA_ALLOWED_HOSTS"),
        ({"STOA_ALLOWED_HOSTS": None}, "STOA_ALLOWED_HOSTS"),
        ({"DATABASE_URL": None}, "DATABASE_URL"),
        ({"STOA_ALOWED_HOSTS": "shop.example"}, "STOA_ALOWED_HOSTS"),
    ],
)
def test_x1_an_unsafe_environment_is_refused_with_the_setting(
    tmp_path: Path, changes: dict[str, str | None], named: str
) -> None:
    checked = check(tmp_path, **changes)
    assert checked.returncode != 0
    assert named in checked.stderr.splitlines()[-1]
    for value in (SOUND["SECRET_KEY"], SOUND["STOA_JWT_KEY"]):
        assert value not in checked.stdout + checked.stderr


@pytest.mark.parametrize("name", ["STOA_EMAIL_URL", "STOA_EMAIL_FROM", "STOA_STOREFRONT_URL"])
@pytest.mark.parametrize("value", [None, ""])
def test_x1_a_shop_without_email_settings_does_not_start(tmp_path: Path, name: str, value: str | None) -> None:
    if configured.PROJECT != "commerce":
        pytest.skip("The model server writes no letters.")
    checked = check(tmp_path, **{name: value})
    assert checked.returncode != 0
    assert name in checked.stderr.splitlines()[-1]


ASKED_WITHOUT_TLS = """
import django
django.setup()
from django.test import Client
print([Client(HTTP_HOST="shop.example").get(path).status_code for path in ("/livez", "/metrics", "/admin/login/")])
"""


def test_probes_and_metrics_need_no_tls_and_everything_else_does(tmp_path: Path) -> None:
    environment = os.environ | SOUND | {"STOA_HOME": str(tmp_path)}
    environment["DJANGO_SETTINGS_MODULE"] = f"{configured.PROJECT}.config.settings.production"
    asked = subprocess.run(
        [sys.executable, "-c", ASKED_WITHOUT_TLS],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert asked.stdout.splitlines()[-1:] == ["[200, 401, 301]"], asked.stderr


@pytest.mark.parametrize(("is_required", "status"), [("true", 301), ("false", 401)])
def test_a_model_server_behind_others_can_answer_without_tls(tmp_path: Path, is_required: str, status: int) -> None:
    if configured.PROJECT != "inference":
        pytest.skip("Browsers use the shop.")
    environment = os.environ | SOUND | {"STOA_HOME": str(tmp_path), "STOA_REQUIRE_HTTPS": is_required}
    environment["DJANGO_SETTINGS_MODULE"] = "inference.config.settings.production"
    asked = subprocess.run(
        [sys.executable, "-c", ASKED_WITHOUT_TLS.replace("/admin/login/", "/v1/models")],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert asked.stdout.splitlines()[-1:] == [f"[200, 401, {status}]"], asked.stderr


@pytest.mark.parametrize(("seconds", "header"), [(None, "max-age=31536000; includeSubDomains; preload"), ("0", None)])
def test_hsts_can_be_switched_off_and_probes_are_never_redirected(
    tmp_path: Path, seconds: str | None, header: str | None
) -> None:
    environment = os.environ | SOUND | {"STOA_HOME": str(tmp_path), "STOA_HSTS_SECONDS": seconds or "31536000"}
    environment["DJANGO_SETTINGS_MODULE"] = f"{configured.PROJECT}.config.settings.production"
    done = subprocess.run(
        [sys.executable, "-c", READ_HEADERS],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.splitlines() == [str(header), "None", "None", "None", "301"], done.stderr


READ_HEADERS = """
import django
django.setup()
from django.http import HttpResponse
from django.middleware.security import SecurityMiddleware
from django.test import RequestFactory
middleware = SecurityMiddleware(lambda request: HttpResponse())
print(middleware(RequestFactory().get("/nowhere", secure=True)).headers.get("Strict-Transport-Security"))
for path in ("/livez", "/readyz", "/health"):
    print(middleware.process_request(RequestFactory().get(path, headers={"Host": "shop.example"})))
print(middleware.process_request(RequestFactory().get("/nowhere", headers={"Host": "shop.example"})).status_code)
"""
