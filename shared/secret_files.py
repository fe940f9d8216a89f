"""Secrets that a machine makes for itself once, atomically, readable by its owner alone; and which are none."""

import os
import secrets
from pathlib import Path

SHORTEST_KEY = 32  # bytes: the output of HMAC-SHA-256 (RFC 7518, section 3.2)
FEWEST_CHARACTERS = 10


def can_be_guessed(key: str) -> bool:
    """Whether a key is short, of few different characters, or one of the well-known defaults."""
    return len(key.encode()) < SHORTEST_KEY or len(set(key)) < FEWEST_CHARACTERS or "insecure" in key


def read_or_make_secret(path: Path) -> str:
    """The secret in `path`; made of 48 random bytes when there is none. Of many processes at once, one makes it."""
    try:
        return path.read_text()
    except FileNotFoundError:
        pass
    draft = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(48))
    try:
        os.link(draft, path)  # fails when another process was first, so nobody ever reads half a secret
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return path.read_text()
