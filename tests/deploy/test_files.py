"""Ports, locks and private files."""

import json
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from steps.files import choose_port, locked, read_json, write_private
from steps.terminal import Failed

from tests.deploy.conftest import DEPLOY


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def test_the_usual_port_is_taken_when_it_is_free():
    port = free_port()
    assert choose_port("commerce", None, port) == port


def test_a_taken_usual_port_gives_a_free_one_and_says_so(capsys: pytest.CaptureFixture[str]):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        usual = taken.getsockname()[1]
        chosen = choose_port("commerce", None, usual)
    assert chosen != usual
    assert f"Port {usual} is taken: commerce gets {chosen}." in capsys.readouterr().out


def test_a_taken_wanted_port_is_a_failure_that_says_what_to_do():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Failed, match=f"Port {port} is taken.*--commerce-port"):
            choose_port("commerce", port, 8000)


def test_a_port_that_another_is_to_have_is_not_given_twice():
    port = free_port()
    assert choose_port("commerce", None, port, promised=port) != port
    with pytest.raises(Failed, match="--inference-port"):
        choose_port("inference", port, 8001, promised=port)


def test_what_is_written_privately_is_whole_and_for_its_owner(tmp_path: Path):
    path = tmp_path / "notes.json"
    write_private(path, {"keys": {"demo": "secret"}})
    assert read_json(path) == {"keys": {"demo": "secret"}}
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", [None, "", '{"half": '])
def test_notes_that_are_missing_or_broken_are_no_notes(tmp_path: Path, content: str | None):
    path = tmp_path / "notes.json"
    if content is not None:
        path.write_text(content)
    assert read_json(path) == {}


def test_a_lock_is_held_by_one_process_and_ends_with_it(tmp_path: Path):
    script = (
        f"import pathlib, sys, time; sys.path.insert(0, {str(DEPLOY)!r}); from steps.files import locked\n"
        f"with locked(pathlib.Path({str(tmp_path)!r})): print('held', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        waiter = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
        time.sleep(0.5)
        assert waiter.poll() is None
        holder.kill()
    assert waiter.stdout
    assert waiter.stdout.readline() == b"held\n"
    waiter.kill()
    waiter.communicate()
    with locked(tmp_path):
        pass


def test_the_information_for_scripts_is_json(tmp_path: Path):
    write_private(tmp_path / "info.json", {"pid": 1})
    assert re.fullmatch(r'\{\s*"pid": 1\s*\}', (tmp_path / "info.json").read_text())
    assert json.loads((tmp_path / "info.json").read_text())["pid"] == 1
