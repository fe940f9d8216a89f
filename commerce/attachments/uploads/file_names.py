"""Safe file names, made from the names that clients send."""

import re
import unicodedata

MAX_STEM_LENGTH = 60  # characters; at most 240 bytes in UTF-8, which every file system takes
_NON_WORD = re.compile(r"[^\w]+")
# Windows opens devices under these names, whatever the extension.
_DEVICE_NAMES = frozenset({"con", "prn", "aux", "nul"} | {f"{port}{n}" for port in ("com", "lpt") for n in range(10)})


def safe_name(client_name: str, extension: str) -> str:
    """Return the client's name without folders, reduced to letters, digits, `_` and `-`, with this extension.

    Inner dots become hyphens too, because some servers execute `photo.php.jpg`.
    """
    base_name = re.split(r"[/\\]", client_name)[-1]
    stem = base_name.rpartition(".")[0] or base_name
    safe_stem = _NON_WORD.sub("-", unicodedata.normalize("NFC", stem))[:MAX_STEM_LENGTH].strip("-_")
    if not safe_stem or safe_stem.lower() in _DEVICE_NAMES:
        safe_stem = f"file-{safe_stem}".strip("-")
    return f"{safe_stem}.{extension}"
