"""Files are shown to a ClamAV daemon, spoken to by its own protocol."""

import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from tests.commerce.attachments.conftest import Upload, files_in
from tests.commerce.attachments.samples import image_file, pdf_file

EICAR = b"X5O!P%@AP[4\\PZX54(P^)7CC)7}$EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"


class Clamd:
    """A daemon that knows EICAR, and answers as clamd(8) says; `mood` makes it answer otherwise."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.seen: list[bytes] = []
        self.mood = b""
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
                self.seen.append(content)
                found = b"stream: Eicar-Test-Signature FOUND\0" if EICAR in content else b"stream: OK\0"
                client.sendall(self.mood or found)

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


def test_a_file_is_scanned_as_it_came(upload: Upload, clamd: Clamd):
    content = image_file("JPEG", comment=b"as it came")

    assert upload(("a.jpg", content)).status_code == 200
    assert clamd.seen == [content]


def test_an_infected_file_is_refused_and_nothing_is_stored(upload: Upload, clamd: Clamd, media_root: Path):
    answer = upload(("a.png", image_file()), ("bad.pdf", pdf_file().replace(b"%%EOF", EICAR + b"\n%%EOF")))

    assert answer.status_code == 422
    assert answer.json()["message"] == "bad.pdf is infected: Eicar-Test-Signature."
    assert files_in(media_root) == []


@pytest.mark.parametrize("mood", [b"INSTREAM size limit exceeded. ERROR\0", b"\0", b"stream: OK, I think\0"])
def test_a_daemon_that_does_not_say_that_all_is_well_lets_nothing_through(
    upload: Upload, clamd: Clamd, media_root: Path, mood: bytes
):
    clamd.mood = mood

    answer = upload(("a.png", image_file()))

    assert answer.status_code == 503
    assert answer.json()["code"] == "unavailable"
    assert answer.headers["Retry-After"] == "30"
    assert files_in(media_root) == []


def test_a_daemon_that_is_away_lets_nothing_through(upload: Upload, settings: Settings, media_root: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings.CLAMD = f"tcp://127.0.0.1:{taken.getsockname()[1]}"

    assert upload(("a.png", image_file())).status_code == 503
    assert files_in(media_root) == []
