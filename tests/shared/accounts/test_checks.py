"""System checks that refuse to start with a weak key."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings as configured
from django.core.checks import run_checks
from pytest_django import Settings

from shared.accounts.apps import check_jwt_key
from tests.shared.accounts.conftest import set_signing_key

pytestmark = pytest.mark.no_database

REPOSITORY = Path(__file__).resolve().parents[3]
WEAK = [
    "x",
    "secret",
    "a" * 64,
    "abcabcabcabcabcabcabcabcabcabcabcabcabc",
    "django-insecure-0123456789abcdefghijklmnop",
]


@pytest.mark.parametrize("key", WEAK)
def test_a4_a_key_that_can_be_guessed_is_an_error(settings: Settings, key: str) -> None:
    set_signing_key(settings, key)
    errors = check_jwt_key(None)
    assert [error.id for error in errors] == ["accounts.E001"]
    assert key not in f"{errors[0].msg} {errors[0].hint}" or key in ("x", "secret")
    assert "accounts.E001" in [error.id for error in run_checks()]


@pytest.mark.parametrize("key", WEAK)
def test_a4_a_fallback_key_that_can_be_guessed_is_an_error(settings: Settings, key: str) -> None:
    settings.JWT_KEY_FALLBACKS = ["4RkTgh0yYb7iK2mQ9xW5vN8cL1dZ6sEjUaFpOo3u", key]
    assert [error.msg.split()[0] for error in check_jwt_key(None)] == ["STOA_JWT_KEY_FALLBACKS"]


def test_a4_the_generated_key_passes_the_check() -> None:
    assert check_jwt_key(None) == []


def test_a4_a_weak_key_in_the_environment_fails_the_check_command(tmp_path: Path) -> None:
    environment = os.environ | {"STOA_JWT_KEY": "changeme", "STOA_HOME": str(tmp_path)}
    assert _check(environment).returncode != 0


def test_a4_without_the_accounts_app_the_check_command_fails(tmp_path: Path) -> None:
    (tmp_path / "without_accounts.py").write_text(
        f"from {configured.SETTINGS_MODULE} import *\n"
        "INSTALLED_APPS = [app for app in INSTALLED_APPS if app != 'shared.accounts']\n"
    )
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "without_accounts",
        "PYTHONPATH": f"{tmp_path}:{REPOSITORY}",
        "STOA_HOME": str(tmp_path),
    }
    assert _check(environment).returncode != 0


def test_a4_with_a_valid_environment_the_check_command_succeeds(tmp_path: Path) -> None:
    assert _check(os.environ | {"STOA_HOME": str(tmp_path)}).returncode == 0


def _check(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    environment = {"DJANGO_SETTINGS_MODULE": configured.SETTINGS_MODULE} | environment
    command = [sys.executable, "-m", "django", "check"]
    return subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120)
