"""Error messages and exit codes of commands."""

import pytest
import typer

from inference.cli.errors import exit_with_error
from inference.engine import EngineDied


def test_control_characters_in_an_error_are_escaped(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(typer.Exit) as end:
        exit_with_error(EngineDied("It said: \x1b[2J\x1b]0;owned\x07 and\nmore \u202eof it."))

    assert end.value.exit_code == 1
    assert capsys.readouterr().err == "stoa: It said: �[2J�]0;owned� and\nmore �of it.\n"
