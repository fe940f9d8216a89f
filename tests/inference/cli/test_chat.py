"""An interactive chat with `stoa chat`, over a pseudo-terminal."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.inference.cli.test_cli import running_requests
from tests.inference.engine.processes import REPOSITORY
from tests.inference.running_server import RunningServer

PROMPT = ">>> "
CTRL_C, CTRL_D, UP = "\x03", "\x04", "\x1b[A"


class Terminal:
    """A command that runs on a pseudo-terminal."""

    def __init__(self, environment: dict[str, str], *arguments: str) -> None:
        self._descriptor, terminal = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "manage_inference.py", *arguments],
            cwd=REPOSITORY,
            env=environment | {"TERM": "dumb", "NO_COLOR": "1"},
            pass_fds=[terminal],
            preexec_fn=lambda: os.login_tty(terminal),
        )
        os.close(terminal)

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def interrupt(self) -> None:
        """Type Ctrl-C at the prompt, again until it has an effect: readline ignores one while it prints the prompt."""
        self.type(CTRL_C)
        while not select.select([self._descriptor], [], [], 2)[0]:
            self.type(CTRL_C)

    def read_until(self, end: str) -> str:
        """Read the output up to and including `end`, without control sequences."""
        output, deadline = b"", time.monotonic() + 60
        while not output.endswith(end.encode()):
            assert time.monotonic() < deadline, output
            if select.select([self._descriptor], [], [], 0.5)[0]:
                output += os.read(self._descriptor, 1)
        return re.sub(r"\x1b\[[?0-9;]*[a-z]", "", output.decode()).replace("\r", "")

    def say(self, line: str) -> str:
        """Type a line and return the output up to the next prompt."""
        self.type(line + "\n")
        return self.read_until(PROMPT).partition("\n")[2].removesuffix(PROMPT)

    def status(self) -> int:
        """Return the exit status."""
        status = self._process.wait(60)
        os.close(self._descriptor)
        return status


def open_chat(stoa: RunningServer) -> Terminal:
    terminal = Terminal(stoa.environment, "chat", "talker", "-o", "max_tokens=3")
    terminal.read_until(PROMPT)
    return terminal


@pytest.fixture
def chat(stoa: RunningServer) -> Terminal:
    return open_chat(stoa)


def wait_until_idle(stoa: RunningServer) -> None:
    """Return when the model runs no request. A disconnect is noticed with a delay."""
    deadline = time.monotonic() + 30
    while running_requests(stoa, "talker"):
        assert time.monotonic() < deadline


def test_a_chat_answers_messages_and_runs_commands(chat: Terminal):
    assert chat.say("hello") == "w0 w1 w2 \n"
    assert chat.say("/set max_tokens 2") == ""
    assert chat.say("hello") == "w0 w1 \n"
    assert "Unknown parameter temprature" in chat.say("/set temprature 1")
    assert "temperature" in chat.say("/set temperature 3")
    assert chat.say("/set system Be brief.") == ""
    assert chat.say("/show") == '{\n  "max_tokens": 2,\n  "system": "Be brief."\n}\n'
    assert "Unknown command /nothing" in chat.say("/nothing")
    assert "/clear" in chat.say("/help")
    assert chat.say("/verbose") == ""
    assert "output:               2 tokens" in chat.say("hello")
    chat.type('"""two\n')
    chat.read_until("... ")
    assert chat.say('lines"""').startswith("w0 w1 \n")
    chat.type("/bye\n")
    assert chat.status() == 0


def test_lines_are_recalled_also_those_of_earlier_chats(stoa: RunningServer, chat: Terminal):
    assert chat.say("hello") == "w0 w1 w2 \n"
    chat.say("/set max_tokens 1")
    chat.type(UP + UP + "\n")
    chat.read_until("\nw0 \r\n" + PROMPT)
    chat.type("/bye\n")
    assert chat.status() == 0

    later = open_chat(stoa)
    later.type(UP + UP + "\n")  # /bye was the last line
    later.read_until("\nw0 w1 w2 \r\n" + PROMPT)
    later.type(CTRL_D)
    assert later.status() == 0
    history = Path(stoa.environment["STOA_HOME"]) / "var" / "chat-history"
    assert history.read_text().splitlines()[-3:] == ["hello", "/bye", "hello"]
    assert history.stat().st_mode & 0o777 == 0o600


def test_ctrl_c_stops_a_response_but_not_the_chat(stoa: RunningServer, chat: Terminal):
    chat.say("/set max_tokens 4000")
    chat.type("hello\n")
    chat.read_until("w5 ")
    chat.type(CTRL_C)
    stopped = chat.read_until(PROMPT)
    chat.say("/set max_tokens 1")

    assert "w3999" not in stopped
    wait_until_idle(stoa)
    assert chat.say("hello") == "w0 \n"
    chat.interrupt()
    assert "/bye to exit" in chat.read_until(PROMPT)
    chat.type(CTRL_D)
    assert chat.status() == 0


def test_an_unknown_model_ends_the_chat_before_it_starts(stoa: RunningServer):
    terminal = Terminal(stoa.environment, "run", "nobody")
    terminal.read_until("Available:")

    rest = terminal.read_until("\n")
    assert "talker" in rest
    assert terminal.status() == 4
