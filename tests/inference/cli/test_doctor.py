"""`stoa doctor`: its own check of the port. Its other checks are those of the health page."""

import http.server
import threading

import pytest

from inference.cli.commands import doctor


class Health(http.server.BaseHTTPRequestHandler):
    """A server whose health is `body`."""

    body: bytes

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.mark.parametrize(
    ("body", "is_ok", "found"),
    [(b'{"version": "1.0.0"}', True, "has Stoa 1.0.0."), (b"<html>", False, "is taken by another program.")],
)
def test_doctor_tells_stoa_at_its_port_from_another_program(
    monkeypatch: pytest.MonkeyPatch, body: bytes, is_ok: bool, found: str
):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Health,), {"body": body})) as server:
        monkeypatch.setattr(doctor, "DEFAULT_PORT", server.server_port)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (finding,) = doctor.check_port()
        server.shutdown()
    assert (finding.is_ok, finding.found) == (is_ok, f"{server.server_port} {found}")
    assert bool(finding.advice) != is_ok
    (finding,) = doctor.check_port()
    assert finding.found == f"{server.server_port} is free."
