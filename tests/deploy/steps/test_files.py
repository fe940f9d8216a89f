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
from steps.terminal import StepError

from tests.deploy.conftest import DEPLOY


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def test_a_free_default_port_is_chosen():
    port = free_port()
    assert choose_port("commerce", None, port) == port


def test_a_free_port_replaces_a_taken_default_and_is_reported(capsys: pytest.CaptureFixture[str]):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        default = taken.getsockname()[1]
        chosen = choose_port("commerce", None, default)
    assert chosen != default
    assert f"Port {default} is taken: commerce gets {chosen}." in capsys.readouterr().out


def test_the_port_of_the_last_time_replaces_a_taken_default_if_it_is_free():
    last = free_port()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        default = taken.getsockname()[1]
        assert choose_port("commerce", None, default, last=last) == last
        with socket.create_server(("127.0.0.1", last)):
            assert choose_port("commerce", None, default, last=last) not in (last, default)


def test_a_taken_requested_port_fails_and_names_the_option():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StepError, match=f"Port {port} is taken.*--commerce-port"):
            choose_port("commerce", port, 8000)


def test_a_reserved_port_is_not_chosen():
    port = free_port()
    assert choose_port("commerce", None, port, reserved=port) != port
    with pytest.raises(StepError, match="--inference-port"):
        choose_port("inference", port, 8001, reserved=port)


def test_write_private_leaves_one_file_readable_only_by_its_owner(tmp_path: Path):
    path = tmp_path / "state.json"
    write_private(path, {"keys": {"demo": "secret"}})
    assert read_json(path) == {"keys": {"demo": "secret"}}
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", [None, "", '{"half": '])
def test_a_missing_or_incomplete_file_reads_as_an_empty_object(tmp_path: Path, content: str | None):
    path = tmp_path / "state.json"
    if content is not None:
        path.write_text(content)
    assert read_json(path) == {}


def test_a_lock_is_exclusive_and_released_when_its_process_ends(tmp_path: Path):
    script = (
        f"import pathlib, sys, time; sys.path.insert(0, {str(DEPLOY)!r}); from steps.files import locked\n"
        f"with locked(pathlib.Path({str(tmp_path)!r})): print('locked', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as owner:
        assert owner.stdout
        assert owner.stdout.readline() == b"locked\n"
        waiter = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
        time.sleep(0.5)
        assert waiter.poll() is None
        owner.kill()
    assert waiter.stdout
    assert waiter.stdout.readline() == b"locked\n"
    waiter.kill()
    waiter.communicate()
    with locked(tmp_path):
        pass


def test_write_private_writes_indented_json(tmp_path: Path):
    write_private(tmp_path / "info.json", {"pid": 1})
    assert re.fullmatch(r'\{\s*"pid": 1\s*\}', (tmp_path / "info.json").read_text())
    assert json.loads((tmp_path / "info.json").read_text())["pid"] == 1
