"""Tests of the virus scan, against a fake ClamAV daemon that speaks its protocol."""

import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.commerce.attachments.conftest import Upload, files_in
from tests.commerce.attachments.samples import image_file, pdf_file

pytestmark = pytest.mark.no_database

EICAR = b"X5O!P%@AP[4\\PZX54(P^)7CC)7}$EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"


class Clamd:
    """A fake daemon that detects EICAR and replies as clamd(8) does. `fixed_reply` overrides its replies."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.scanned: list[bytes] = []
        self.fixed_reply = b""
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            with client, client.makefile("rb") as stream:
                assert stream.read(10) == b"zINSTREAM\0"
                content = b""
                while length := struct.unpack(">I", stream.read(4))[0]:
                    content += stream.read(length)
                self.scanned.append(content)
                verdict = b"stream: Eicar-Test-Signature FOUND\0" if EICAR in content else b"stream: OK\0"
                client.sendall(self.fixed_reply or verdict)

    def stop(self) -> None:
        self._listener.close()


@pytest.fixture(params=["tcp", "unix"])
def clamd(request: pytest.FixtureRequest, settings: Settings, tmp_path: Path) -> Iterator[Clamd]:
    if request.param == "tcp":
        listener = socket.create_server(("127.0.0.1", 0))
        settings.CLAMD = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    else:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(tmp_path / "clamd"))
        listener.listen()
        settings.CLAMD = f"unix://{tmp_path / 'clamd'}"
    daemon = Clamd(listener)
    yield daemon
    daemon.stop()


def test_file_is_scanned_before_it_is_changed(upload: Upload, clamd: Clamd):
    content = image_file("JPEG", comment=b"as it came")

    assert upload(("a.jpg", content)).status_code == 200
    assert clamd.scanned == [content]


def test_infected_file_is_refused_and_nothing_is_stored(upload: Upload, clamd: Clamd, media_root: Path):
    response = upload(("a.png", image_file()), ("bad.pdf", pdf_file().replace(b"%%EOF", EICAR + b"\n%%EOF")))

    assert response.status_code == 422
    assert response.json()["message"] == "bad.pdf is infected: Eicar-Test-Signature."
    assert files_in(media_root) == []


@pytest.mark.parametrize("reply", [b"INSTREAM size limit exceeded. ERROR\0", b"\0", b"stream: OK, I think\0"])
def test_unexpected_scanner_reply_gets_503(upload: Upload, clamd: Clamd, media_root: Path, reply: bytes):
    clamd.fixed_reply = reply

    response = upload(("a.png", image_file()))

    assert response.status_code == 503
    assert response.json()["code"] == "unavailable"
    assert response.headers["Retry-After"] == "30"
    assert files_in(media_root) == []


def test_unreachable_scanner_gets_503(upload: Upload, settings: Settings, media_root: Path):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        settings.CLAMD = f"tcp://127.0.0.1:{closed.getsockname()[1]}"

    assert upload(("a.png", image_file())).status_code == 503
    assert files_in(media_root) == []
