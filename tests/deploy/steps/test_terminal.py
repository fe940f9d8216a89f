"""The line of a step."""

import time

import pytest
from steps import terminal


def test_a_terminal_shows_the_seconds_of_a_step_as_they_pass(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(terminal, "IS_TERMINAL", True)
    with terminal.step("Waiting"):
        time.sleep(1.3)
    begun, passed, ended = capsys.readouterr().out.split("\r\033[K")
    assert (begun, passed) == ("  Waiting ... ", "  Waiting ... 1 s")
    assert ended.startswith("  Waiting ... 1.3 s\n")


def test_the_seconds_leave_a_progress_bar_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(terminal, "IS_TERMINAL", True)
    with terminal.step("Downloading"):
        for _ in range(3):
            time.sleep(0.5)
            terminal.redraw("a bar")
    assert "Downloading ... 1 s" not in capsys.readouterr().out.removesuffix("  Downloading ... 1.5 s\n")


def test_a_step_that_fails_says_so(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(ValueError, match="why"), terminal.step("Failing"):
        raise ValueError("why")
    assert capsys.readouterr().out == "  Failing ... failed\n"
