"""Rows N16 and X8: the maps of ASVS and AISVS name a test or a reason for each requirement."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.deploy.manifests import DEPLOY

ROOT = DEPLOY.parent
ROW = re.compile(
    r"^\| (?P<id>\d+\.\d+\.\d+) \| (?P<level>[12]) \| (?P<about>[^|]+) \| (?P<evidence>[^|]+) \|$", re.MULTILINE
)
QUOTED = re.compile(r"`([\w./-]+\.(?:py|md|yaml|conf)(?:::\w+)?)`")
NAMED_TEST = re.compile(r"`[\w/]*test_\w+\.py::test_\w+`")
UNMET = re.compile("Not done|In part")
REFERENCE = re.compile(r"\bsee (\d+\.\d+\.\d+)")
TAKES = " It takes "
REASONS = ("Not here: ", "Not done: ", "In part: ", "The operator's")

# The number of requirements of levels 1 and 2 in each chapter.
REQUIREMENTS = {
    "ASVS": [27, 11, 19, 10, 9, 35, 18, 7, 7, 29, 14, 9, 13, 9, 13, 16, 7],
    "AISVS": [11, 10, 11, 5, 6, 7, 10, 8, 26, 21, 12, 19],
}


def rows(name: str) -> list[re.Match[str]]:
    return list(ROW.finditer((DEPLOY / "security" / f"{name}.md").read_text()))


def exists(named: str) -> bool:
    """Return whether this test, or this file of the repository, exists."""
    path, _, test = named.partition("::")
    file = ROOT / "tests" / path if Path(path).name.startswith("test_") else ROOT / path
    return file.is_file() and (not test or f"def {test}(" in file.read_text())


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_x8_every_requirement_has_a_row(name: str):
    ids = [row["id"] for row in rows(name)]

    assert len(set(ids)) == len(ids)
    chapters = Counter(int(one.partition(".")[0]) for one in ids)
    assert [chapters[number] for number in sorted(chapters)] == REQUIREMENTS[name]


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_n16_every_row_names_a_test_or_a_reason(name: str):
    unexplained = [
        row["id"]
        for row in rows(name)
        if not NAMED_TEST.search(row["evidence"]) and not row["evidence"].startswith(REASONS)
    ]

    assert unexplained == []


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_n16_what_is_not_done_says_what_it_takes_or_refers_to_a_row_that_does(name: str):
    evidence = {row["id"]: row["evidence"] for row in rows(name)}

    def is_said(number: str) -> bool:
        if TAKES in evidence[number]:
            return True
        other = REFERENCE.search(evidence[number])
        return other is not None and other[1] in evidence and is_said(other[1])

    assert [number for number, text in evidence.items() if UNMET.search(text) and not is_said(number)] == []


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_x8_named_tests_and_files_exist(name: str):
    named = {quoted for row in rows(name) for quoted in QUOTED.findall(row["evidence"])}

    assert len(named) > 20
    assert sorted(one for one in named if not exists(one)) == []
    assert all("::" in one for one in named if Path(one.partition("::")[0]).name.startswith("test_"))
