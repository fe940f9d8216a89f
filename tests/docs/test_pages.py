"""Links, sizes and names of the Markdown pages."""

import re
from pathlib import Path

import pytest

from shared.variables import VARIABLES
from tests.docs.pages import CHECKOUT, LINK, anchors, markdown_pages, text_without_code

MAX_README_BYTES = 12 * 1024
PAGES = markdown_pages()
SOURCE_FOLDERS = ("commerce", "inference", "shared", "deploy", "tests")


def name(page: Path) -> str:
    return str(page.relative_to(CHECKOUT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_relative_link_and_anchor_resolves(page: Path):
    broken = []
    for link in LINK.findall(text_without_code(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.name == "README.md"], ids=name)
def test_a_readme_has_at_most_12_kilobytes(page: Path):
    assert page.stat().st_size <= MAX_README_BYTES


def test_every_page_of_the_manual_is_linked():
    linked = {
        (page.parent / link.partition("#")[0]).resolve() for page in PAGES for link in LINK.findall(page.read_text())
    }
    assert [name(page) for page in PAGES if page.is_relative_to(CHECKOUT / "docs") and page not in linked] == []


def test_every_picture_is_shown_and_small():
    shown = {(page.parent / link).resolve() for page in PAGES for link in LINK.findall(page.read_text())}
    pictures = list((CHECKOUT / "docs" / "images").iterdir())
    assert len(pictures) >= 3
    assert [name(picture) for picture in pictures if picture not in shown or picture.stat().st_size > 300_000] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=name)
def test_every_setting_that_a_page_names_is_declared(page: Path):
    declared = {variable.name for variable in VARIABLES}
    named = set(re.findall(r"\bSTOA_[A-Z0-9_]*[A-Z0-9]\b", page.read_text()))
    assert sorted(named - declared) == []


# The security maps name tests below tests/, which test_x8_security_maps checks; the changelog names former files.
NAMING_FILES = [page for page in PAGES if page.parent.name != "security" and page.name != "CHANGELOG.md"]


@pytest.mark.parametrize("page", NAMING_FILES, ids=name)
def test_every_file_that_a_page_names_exists(page: Path):
    """Paths in backticks that begin with a folder of the checkout; `::` names a test in the file."""
    missing = []
    for quoted in re.findall(r"`([^`\s]+)`", text_without_code(page)):
        path, _, test = quoted.partition("::")
        if not re.fullmatch(rf"({'|'.join(SOURCE_FOLDERS)}|docs)/[\w./-]+", path):
            continue
        candidates = [CHECKOUT / path, CHECKOUT / f"{path}.py"]
        file = next((candidate for candidate in candidates if candidate.exists()), None)
        if file is None or (test and f"def {test}(" not in file.read_text()):
            missing.append(quoted)
    assert missing == []
