"""The one line that a verb ends with."""

import pytest
import typer

from inference.cli.failures import fail
from inference.engine import EngineDied


def test_what_another_server_says_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(typer.Exit) as end:
        fail(EngineDied("It said: \x1b[2J\x1b]0;owned\x07 and\nmore \u202eof it."))

    assert end.value.exit_code == 1
    assert capsys.readouterr().err == "stoa: It said: �[2J�]0;owned� and\nmore �of it.\n"
