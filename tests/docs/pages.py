"""The Markdown pages of the repository, with their links and headings."""

import re
import subprocess
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
HEADING = re.compile(r"^#{1,6} (.+?)\s*$", re.MULTILINE)
LINK = re.compile(r"\]\(([^()\s]+)\)")
CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def markdown_pages() -> list[Path]:
    """Return every Markdown file that git knows or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(path for line in listed.stdout.splitlines() if (path := CHECKOUT / line).exists())


def text_without_code(page: Path) -> str:
    return CODE.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """Return the anchors of the page's headings, as GitHub makes them."""
    found: set[str] = set()
    for heading in HEADING.findall(text_without_code(page)):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        repetitions = sum(1 for other in found if re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", other))
        found.add(f"{anchor}-{repetitions}" if repetitions else anchor)
    return found


def table_rows(page: Path, header: str) -> list[list[str]]:
    """Return the cells of the table with this header line, without its separator."""
    lines = page.read_text().splitlines()
    rows = []
    for line in lines[lines.index(header) + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows
