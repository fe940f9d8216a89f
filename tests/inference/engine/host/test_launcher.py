"""The stderr tail of a crashed process, and how processes end with their host."""

import asyncio
import socket

import pytest

from inference.engine.host.launcher import StderrTail
from tests.inference.engine.processes import eventually, process_exists, start_program


async def heard(text: str) -> str:
    ours, theirs = socket.socketpair()
    words = StderrTail(ours)
    with theirs:
        theirs.sendall(text.encode())
    await asyncio.sleep(0)
    return words.finish()


async def test_the_stderr_tail_is_the_last_lines_that_are_not_blank() -> None:
    assert await heard("one\ntwo\n\nthree\n  four  \n\n") == "two | three | four"
    assert await heard("") == ""


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("no such file: /home/ann/.secrets/key.pem", "no such file: key.pem"),
        ("cannot open '/srv/models/m/model.safetensors'", "cannot open 'model.safetensors'"),
        ('File "/usr/lib/python3/a.py", line 3', 'File "a.py", line 3'),
        ("~/models/m is missing", "m is missing"),
        ("3/4 of it, and/or https://example.com/x", "3/4 of it, and/or https:/x"),
    ],
)
async def test_the_stderr_tail_names_no_folders(said: str, told: str) -> None:
    assert await heard(said) == told


async def test_the_stderr_tail_is_short() -> None:
    assert await heard("x" * 50_000) == "x" * 500


async def test_m6_a_process_that_hangs_before_it_runs_a_model_ends_with_the_host() -> None:
    program = (
        "import asyncio, time\n"
        "from inference.engine.host.launcher import Launcher\n"
        "async def main():\n"
        "    launcher = Launcher('tests.inference.engine.fake_model')\n"
        "    await launcher._warmed_up\n"
        "    process = launcher._context.Process(target=time.sleep, args=(60,))\n"
        "    process.start()\n"
        "    print(process.pid, flush=True)\n"
        "    time.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    with start_program(program) as host:
        assert host.stdout is not None
        pid = int(host.stdout.readline())
        assert process_exists(pid)
        host.kill()
    await eventually(lambda: not process_exists(pid), seconds=5)
