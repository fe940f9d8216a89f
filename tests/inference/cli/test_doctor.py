"""`stoa doctor`: its own checks of ports and of the server of STOA_URL. Its others are those of the health page."""

import contextlib
import http.server
import threading
import time
from collections.abc import Iterator
from email.utils import formatdate

import pytest
from pytest_django import Settings

from inference.cli.commands import doctor

LANDING = b'{"name": "Stoa model server", "version": "1.0.0", "links": {}}'


class Landing(http.server.BaseHTTPRequestHandler):
    """A server whose page at / is `body`, and whose clock is `ahead` seconds ahead of this machine's."""

    body = LANDING
    ahead = 0.0
    is_behind_proxy = False  # as in production: it redirects what comes without TLS

    def do_GET(self) -> None:
        is_redirected = self.is_behind_proxy and self.headers["X-Forwarded-Proto"] != "https"
        self.send_response(301 if is_redirected else 200 if self.path == "/" else 404)
        self.end_headers()
        self.wfile.write(self.body)

    def date_time_string(self, timestamp: float | None = None) -> str:
        return formatdate(time.time() + self.ahead, usegmt=True)

    def log_message(self, *args: object) -> None:
        pass


@contextlib.contextmanager
def running_server(**attributes: object) -> Iterator[int]:
    """Run a server with these attributes and yield its port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Landing,), attributes)) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.mark.parametrize("port", ["SHOP_PORT", "DEFAULT_PORT"])
@pytest.mark.parametrize(
    ("body", "is_stoa", "found"),
    [
        (LANDING, True, "has the Stoa model server 1.0.0."),
        (b"<html>", False, "is taken by another program."),
        (b'{"version": "1.0.0", "name": "elasticsearch"}', False, "is taken by another program."),
        (b"[]", False, "is taken by another program."),
    ],
)
def test_doctor_tells_stoa_at_its_ports_from_another_program(
    monkeypatch: pytest.MonkeyPatch, port: str, body: bytes, is_stoa: bool, found: str
):
    position = ("SHOP_PORT", "DEFAULT_PORT").index(port)
    with running_server(body=body) as number:
        monkeypatch.setattr(doctor, port, number)
        finding = doctor.check_ports()[position]
    assert finding.found == f"{number} {found}"
    assert finding.is_ok is (is_stoa or port == "SHOP_PORT")  # which the model server does not need
    assert bool(finding.advice) != is_stoa
    assert doctor.check_ports()[position].found == f"{number} is free."


def test_doctor_finds_a_server_that_answers_over_tls_only(monkeypatch: pytest.MonkeyPatch):
    with running_server(is_behind_proxy=True) as number:
        monkeypatch.setattr(doctor, "DEFAULT_PORT", number)
        finding = doctor.check_ports()[1]
    assert (finding.is_ok, finding.found) == (True, f"{number} has the Stoa model server 1.0.0.")


@pytest.mark.parametrize(
    ("ahead", "is_ok", "found"),
    [(0, True, " s "), (3600.5, False, "3600 s behind the server."), (-3600, False, "s ahead of the server.")],
)
def test_doctor_compares_the_clock_with_that_of_the_server(settings: Settings, ahead: float, is_ok: bool, found: str):
    with running_server(ahead=ahead) as port:
        settings.SERVER_URL = f"http://127.0.0.1:{port}/"
        server, clock = doctor.check_server()
    assert (server.is_ok, "Stoa model server 1.0.0" in server.found) == (True, True)
    assert (clock.check, clock.is_ok, found in clock.found) == ("clock", is_ok, True), clock.found
    assert bool(clock.advice) != is_ok


def test_doctor_says_that_the_server_does_not_answer(settings: Settings):
    settings.SERVER_URL = "http://127.0.0.1:9"
    (server,) = doctor.check_server()
    assert (server.is_ok, server.advice) == (False, "Correct STOA_URL.")
    settings.SERVER_URL = ""
    assert doctor.check_server() == []
