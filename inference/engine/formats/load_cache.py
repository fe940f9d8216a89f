"""Results of loads, kept on disk for later loads of the same files by the same code."""

import hashlib
import os
import shutil
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path

from inference.engine.formats.inspection import fingerprint

MAX_ENTRY_COUNT = 256
LIBRARIES = ("torch", "transformers", "tokenizers")


class LoadCache:
    """The entries of one model's files. Without a folder nothing is kept. Concurrent loads may write the same entry."""

    def __init__(self, folder: Path | None, *models: Path) -> None:
        """Keep what was made of these files.

        folder: private to this user, since entries are trusted. It is created for the first entry.
        models: the model's files, and those of its base model.
        """
        content = repr(([(str(model.absolute()), fingerprint(model)) for model in models], _code_digest()))
        self._folder = folder
        self._key = hashlib.sha256(content.encode()).hexdigest()[:32]

    def find(self, name: str) -> Path | None:
        """Return the folder of an entry, or None."""
        entry = self._entry(name)
        return entry if entry and entry.is_dir() else None

    def new(self, name: str) -> "NewEntry":
        """Return a context manager of a new entry: a folder to write files to, or None."""
        return NewEntry(self._entry(name))

    def _entry(self, name: str) -> Path | None:
        return self._folder / f"{self._key}-{name}" if self._folder else None


class NewEntry:
    """An entry that appears whole, or not at all if writing fails. The oldest entries are removed."""

    def __init__(self, target: Path | None) -> None:
        self._target = target
        self._partial: Path | None = None

    def __enter__(self) -> Path | None:
        if self._target:
            try:
                self._target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._partial = Path(tempfile.mkdtemp(prefix="partial-", dir=self._target.parent))
            except OSError:  # a full or read-only disk: the next load does the work again
                return None
        return self._partial

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> bool:
        if self._partial is None or self._target is None:
            return False
        try:
            if kind is None:
                self._partial.rename(self._target)
                _remove_oldest(self._target.parent)
        except OSError:  # another load was first
            kind = OSError
        finally:
            if kind is not None:
                shutil.rmtree(self._partial, ignore_errors=True)
        return kind is not None and issubclass(kind, OSError)


def _remove_oldest(folder: Path) -> None:
    entries = sorted(folder.iterdir(), key=lambda entry: entry.stat().st_mtime)
    for entry in entries[:-MAX_ENTRY_COUNT]:
        shutil.rmtree(entry, ignore_errors=True)


@cache
def _code_digest() -> str:
    """Return a digest of the engine's code and the versions of the libraries below it."""
    digest = hashlib.sha256(repr([version(name) for name in LIBRARIES]).encode())
    for file in sorted(Path(__file__).parents[1].rglob("*")):
        if file.suffix in (".py", ".cpp"):
            digest.update(file.read_bytes())
    return f"{digest.hexdigest()}{os.uname().machine}"
