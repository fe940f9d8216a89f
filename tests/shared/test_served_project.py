"""The project of this run's settings, served by its own command as clients meet it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from django.conf import settings

from tests.shared.serving.conftest import CHECKOUT, Served

pytestmark = [pytest.mark.each_project, pytest.mark.no_database]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "django", "serve", *arguments]


def environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "REDIS_URL")}
    return kept | {"STOA_HOME": str(home), "DJANGO_SETTINGS_MODULE": settings.SETTINGS_MODULE}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("home")
    log = home / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command("--port", "0"), cwd=CHECKOUT, env=environment(home), stderr=output)
    served = Served(process, log)
    served.url = served.wait_for_line("serving")["urls"][0]
    yield served
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0


@pytest.mark.parametrize(
    ("method", "path", "options", "status"),
    [
        ("GET", "/nowhere", {}, 404),
        ("POST", "/api/nowhere", {"json": {}}, 404),
        ("GET", "/livez", {"headers": {"Host": "evil.example"}}, 400),
        ("POST", "/nowhere", {"content": b"x" * (11 * 1024 * 1024)}, 413),
        ("GET", "/a%00b", {}, 400),
    ],
)
def test_o5_every_error_is_json_with_a_request_id_that_is_in_the_log(
    project: Served, method: str, path: str, options: dict[str, object], status: int
):
    answer = httpx2.request(method, project.url + path, timeout=60, **options)
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.headers["x-request-id"] in answer.text
    assert "Traceback" not in answer.text
    project.wait_for_line("request", request_id=answer.headers["x-request-id"], status=status)


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/nowhere", "/admin/login/", "/"])
def test_x4_every_answer_has_safe_headers(project: Served, path: str):
    answer = project.get(path, headers={"Accept": "text/html"})
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["referrer-policy"] == "same-origin"
    assert "no-store" in answer.headers["cache-control"]
    assert "access-control-allow-origin" not in project.get(path, headers={"Origin": "https://evil.example"}).headers


def test_x1_it_does_not_start_on_a_public_address(tmp_path: Path):
    refused = subprocess.run(
        command("--host", "0.0.0.0"),  # noqa: S104 - must be refused
        cwd=CHECKOUT,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert refused.returncode != 0
    assert f"DJANGO_SETTINGS_MODULE={settings.PROJECT}.config.settings.production" in refused.stderr
    assert "Traceback" not in refused.stderr
