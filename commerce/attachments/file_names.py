"""A name that a person knows their file by, and that no file system, header, URL or server takes for more."""

import re
import unicodedata

LONGEST = 60  # characters before the extension; in UTF-8 at most 240 bytes, which every file system takes
_NOT_PLAIN = re.compile(r"[^\w]+")
# Windows opens devices by these names, whatever the extension.
_DEVICES = frozenset({"con", "prn", "aux", "nul"} | {f"{port}{n}" for port in ("com", "lpt") for n in range(10)})


def safe_name(offered: str, extension: str) -> str:
    """`offered`, without folders and its own extension, as letters, digits, `_` and `-`, under the true extension.

    An inner dot becomes a hyphen too: some servers run `photo.php.jpg`.
    """
    last = re.split(r"[/\\]", offered)[-1]
    stem = last.rpartition(".")[0] or last
    plain = _NOT_PLAIN.sub("-", unicodedata.normalize("NFC", stem))[:LONGEST].strip("-_")
    if not plain or plain.lower() in _DEVICES:
        plain = f"file-{plain}".strip("-")
    return f"{plain}.{extension}"
