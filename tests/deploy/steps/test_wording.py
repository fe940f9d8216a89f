"""The lint of the words."""

from pathlib import Path

import pytest
from steps.wording import find_problems, main


@pytest.mark.parametrize("opening", ["What", "Who", "Whose", "Of", "Where", "How", "Which", "Those", "`What`", "whom"])
def test_a_docstring_with_a_relative_opening_is_a_problem(opening: str):
    source = f'def f():\n    """{opening} it does."""'
    assert [line for line, _ in find_problems(source)] == [2]


@pytest.mark.parametrize("text", ["Return what it found.", "Whole numbers.", "Offline copy.", "However it ends.", ""])
def test_other_docstrings_pass(text: str):
    assert list(find_problems(f'class A:\n    """{text}"""')) == []


@pytest.mark.parametrize(
    "kind", ["", "class A:", "def f():", "async def f():"], ids=["module", "class", "def", "async"]
)
def test_modules_classes_and_functions_are_checked(kind: str):
    assert len(list(find_problems(f'{kind}\n{"    " if kind else ""}"""What it is."""'))) == 1


@pytest.mark.parametrize("name", ["MOST_ROWS", "_LONGEST_NAME", "LARGEST", "LEAST_SCALE", "SMALLEST_BATCH"])
@pytest.mark.parametrize("assignment", ["{} = 3", "{}: int = 3", "class A:\n    {} = 3"])
def test_a_bound_that_is_not_called_max_or_min_is_a_problem(name: str, assignment: str):
    assert len(list(find_problems(assignment.format(name)))) == 1


def test_max_and_min_and_the_use_of_another_modules_bound_pass():
    assert list(find_problems("MAX_ROWS, MIN_ROWS, ALMOST_ALL = 3, 1, 2\nprint(limits.MOST_ROWS)")) == []


def test_places_are_printed_with_a_failing_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "migrations").mkdir()
    (tmp_path / "migrations" / "0001.py").write_text('"""What it migrates."""')
    assert main([str(tmp_path)]) == 0
    (tmp_path / "a.py").write_text("x = 1\nMOST = 2\n")
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.startswith(f"{tmp_path}/a.py:2: MOST is a bound")
