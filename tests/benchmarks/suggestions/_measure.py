"""The judged measure of suggestions to moderators: reports with the right verdict. `measure/README.md`
has the form of the lines and the rules by which they were judged."""

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "measure"
KINDS = {"R": "Review", "Q": "Question"}


@dataclass(frozen=True)
class JudgedReport:
    """A report with its right verdict. A reason is empty if the reporter chose none, or for content that stays."""

    kind: str
    is_removal: bool
    reported_reason: str
    right_reason: str
    content: str
    message: str


def load() -> list[JudgedReport]:
    """Return all reports, in the order of the files."""
    lines = [line for path in sorted(FOLDER.glob("*.txt")) for line in path.read_text().splitlines()]
    return [_read(line) for line in lines if not line.startswith("#")]


def _read(line: str) -> JudgedReport:
    head, content, message = (part.strip() for part in line.split("|"))
    verdict, reasons = head.split()
    reported, _, right = reasons.partition(">")
    is_removal = verdict[1] == "+"
    return JudgedReport(
        kind=KINDS[verdict[0]],
        is_removal=is_removal,
        reported_reason="" if reported == "none" else reported,
        right_reason=(right or reported) if is_removal else "",
        content=content,
        message=message,
    )
