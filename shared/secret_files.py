"""Generated secrets in files that only their owner can read, and the check for guessable keys."""

import os
import secrets
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

MIN_KEY_BYTES = 32  # the output of HMAC-SHA-256 (RFC 7518, section 3.2)
MIN_DISTINCT_CHARACTERS = 10


def can_be_guessed(key: str) -> bool:
    """Return whether a key is short, has few distinct characters or is one of the well-known defaults."""
    return len(key.encode()) < MIN_KEY_BYTES or len(set(key)) < MIN_DISTINCT_CHARACTERS or "insecure" in key


def read_or_make_secret(path: Path) -> str:
    """Return the secret in `path`; generate one of 48 random bytes if the file is missing.

    If several processes start at once, one of them generates it and all return it.
    """
    try:
        return _read_or_make(path)
    except OSError as error:
        raise ImproperlyConfigured(
            f"The secret {path} can neither be read nor created: {error.strerror}. Its folder must be of the user who "
            "runs Stoa, on a disk that can be written and has space."
        ) from error


def _read_or_make(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        pass
    draft = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(48))
    try:
        os.link(draft, path)  # fails if another process was first, so nobody reads half a secret
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return path.read_text()
