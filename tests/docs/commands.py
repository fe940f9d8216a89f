"""The commands of the Markdown pages: their code blocks in order, and what a page says about trying them."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.utils.functional import cached_property

from tests.docs.pages import CHECKOUT, markdown_pages

NOT_TRIED = re.compile(r"^ *Not tried by the tests: (?P<reason>[^.]+)\.", re.MULTILINE)
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<code>.*?)^ *```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} ")


@dataclass(frozen=True)
class CodeBlock:
    """A code block. `answer` is the JSON that the page shows right after a block of shell commands."""

    language: str
    code: str
    answer: Any = None


@dataclass(frozen=True)
class Section:
    """A part of a page, from a heading to the next. A sentence in it says why none of its commands is tried."""

    page: str
    title: str
    text: str

    @property
    def not_tried(self) -> str:
        """Return the reason that the section states, or an empty text."""
        stated = NOT_TRIED.search(self.text)
        return stated["reason"] if stated else ""

    @cached_property
    def blocks(self) -> list[CodeBlock]:
        blocks: list[CodeBlock] = []
        for found in FENCE.finditer(self.text):
            code = re.sub(f"^{found['indent']}", "", found["code"], flags=re.MULTILINE)
            if found["language"] == "json" and blocks and blocks[-1].language == "sh":
                blocks[-1] = CodeBlock("sh", blocks[-1].code, json.loads(code))
            blocks.append(CodeBlock(found["language"], code))
        return blocks

    @cached_property
    def inline_code(self) -> list[str]:
        """Return what is in backticks in the text, each on one line."""
        return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", FENCE.sub("", self.text))]


def sections(page: Path) -> list[Section]:
    """Return the sections of a page, in order."""
    name = str(page.relative_to(CHECKOUT))
    found, title, lines, in_code = [], "", list[str](), False
    for line in page.read_text().splitlines(keepends=True):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        if HEADING.match(line) and not in_code:
            found.append(Section(name, title, "".join(lines)))
            title, lines = line.strip("# \n"), []
        lines.append(line)
    return [*found, Section(name, title, "".join(lines))]


def all_sections() -> list[Section]:
    """Return the sections of every page but the changelog, which names former commands."""
    return [section for page in markdown_pages() if page.name != "CHANGELOG.md" for section in sections(page)]
