"""The stderr tail of a crashed process."""

import asyncio
import socket

import pytest

from inference.engine.host.launcher import StderrTail


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
