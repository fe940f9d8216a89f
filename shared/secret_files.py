"""Secrets that a machine makes for itself once, atomically, readable by its owner alone."""

import os
import secrets
from pathlib import Path


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
