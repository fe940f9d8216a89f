"""`run` on a terminal: a chat, typed and read as a person would."""

import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest

from tests.inference.cli.test_cli import running
from tests.inference.engine.processes import REPOSITORY
from tests.inference.served import ServedStoa

PROMPT = ">>> "
CTRL_C, CTRL_D = "\x03", "\x04"


class Terminal:
    """A command that believes it talks to a person."""

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
        """Ctrl-C at the prompt. Readline hears none that comes in the moment in which it shows the prompt: who sees
        nothing happen types it again."""
        self.type(CTRL_C)
        while not select.select([self._descriptor], [], [], 2)[0]:
            self.type(CTRL_C)

    def read_until(self, end: str) -> str:
        """What comes, up to and with `end`, without what steers a terminal."""
        seen, deadline = b"", time.monotonic() + 60
        while not seen.endswith(end.encode()):
            assert time.monotonic() < deadline, seen
            if select.select([self._descriptor], [], [], 0.5)[0]:
                seen += os.read(self._descriptor, 1)
        return re.sub(r"\x1b\[[?0-9;]*[a-z]", "", seen.decode()).replace("\r", "")

    def say(self, line: str) -> str:
        """What is answered to a line, up to the next prompt."""
        self.type(line + "\n")
        return self.read_until(PROMPT).partition("\n")[2].removesuffix(PROMPT)

    def status(self) -> int:
        """How it ended."""
        status = self._process.wait(60)
        os.close(self._descriptor)
        return status


@pytest.fixture
def chat(stoa: ServedStoa) -> Terminal:
    terminal = Terminal(stoa.environment, "run", "talker", "-o", "max_tokens=3")
    terminal.read_until(PROMPT)
    return terminal


def eventually_idle(stoa: ServedStoa) -> None:
    """Returns when the model works for nobody: who left is noticed a moment later."""
    deadline = time.monotonic() + 30
    while running(stoa, "talker"):
        assert time.monotonic() < deadline


def test_what_is_said_is_answered_and_commands_change_how(chat: Terminal):
    assert chat.say("hello") == "w0 w1 w2 \n"
    assert chat.say("/set max_tokens 2") == ""
    assert chat.say("hello") == "w0 w1 \n"
    assert "temprature is no parameter" in chat.say("/set temprature 1")
    assert "temperature" in chat.say("/set temperature 3")
    assert chat.say("/set system Be brief.") == ""
    assert chat.say("/show") == '{\n  "max_tokens": 2,\n  "system": "Be brief."\n}\n'
    assert "There is no /nothing" in chat.say("/nothing")
    assert "/clear" in chat.say("/help")
    assert chat.say("/verbose") == ""
    assert "output:               2 tokens" in chat.say("hello")
    chat.type('"""two\n')
    chat.read_until("... ")
    assert chat.say('lines"""').startswith("w0 w1 \n")
    chat.type("/bye\n")
    assert chat.status() == 0


def test_ctrl_c_stops_an_answer_and_not_the_chat(stoa: ServedStoa, chat: Terminal):
    chat.say("/set max_tokens 4000")
    chat.type("hello\n")
    chat.read_until("w5 ")
    chat.type(CTRL_C)
    stopped = chat.read_until(PROMPT)
    chat.say("/set max_tokens 1")

    assert "w3999" not in stopped
    eventually_idle(stoa)
    assert chat.say("hello") == "w0 \n"
    chat.interrupt()
    assert "/bye ends" in chat.read_until(PROMPT)
    chat.type(CTRL_D)
    assert chat.status() == 0


def test_a_model_that_is_not_there_ends_it_before_it_begins(stoa: ServedStoa):
    terminal = Terminal(stoa.environment, "run", "nobody")
    terminal.read_until("Available:")

    with_the_rest = terminal.read_until("\n")
    assert "talker" in with_the_rest
    assert terminal.status() == 4
