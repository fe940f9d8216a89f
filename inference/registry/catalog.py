"""Which models there are: folders and GGUF files in the model folders, read without loading anything.

An id is a folder's or file's name. An id from outside is only ever compared with the ids found here, never made part
of a path. What was read of a model is kept until one of its files changes.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from django.conf import settings

from inference.engine import ModelFacts, ModelLoadFailed, fingerprint, inspect_model
from inference.remote.configuration import RemoteModel
from shared.api.errors import ApiError

SAFETENSORS = "safetensors"
GGUF = "gguf"
REMOTE = "remote"
UNKNOWN = "unknown"
LONGEST_ID = 255
MOST_FILES = 10_000
LONGEST_ERROR = 500

Print = tuple[object, ...]


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """A model on disk; or one of another server, or without files, whose `path` is None. `error` says why it cannot be
    loaded; then the other fields hold what could be read.

    parameters, dtype, quantization: of its files; None when they are not known.
    """

    id: str
    path: Path | None
    type: str
    size_bytes: int
    context_size: int
    capabilities: tuple[str, ...]
    changed_at: int
    error: str | None
    parameters: int | None = None
    dtype: str | None = None
    quantization: str | None = None


_read: dict[Path, tuple[Print, ModelCard]] = {}


def read_catalog() -> dict[str, ModelCard]:
    """Every model by id, in order of ids. Of two with one id, one of another server wins, then the operator's own
    folders, then the built-in one."""
    cards: dict[str, ModelCard] = {}
    for root in [*settings.MODELS_DIRS, settings.BUILTIN_MODELS_DIR]:
        for path in _entries(root):
            if path.name not in cards and (kind := _kind(path)):
                cards[path.name] = _card(path, kind, root.resolve())
    for path in _read.keys() - {card.path for card in cards.values()}:
        _read.pop(path, None)
    cards |= {model.id: _remote(model) for model in settings.REMOTE_MODELS.values()}
    return dict(sorted(cards.items()))


def lost_card(model_id: str) -> ModelCard:
    """Of a model that runs or should, and is not in the catalog."""
    return ModelCard(
        id=model_id,
        path=None,
        type=UNKNOWN,
        size_bytes=0,
        context_size=0,
        capabilities=(),
        changed_at=0,
        error="Its files are in no folder of STOA_MODELS_DIR: put them there to load it again, or unload it.",
    )


def model_not_found(model_id: str, catalog: dict[str, ModelCard]) -> ApiError:
    """The answer for an id that is not in the catalog, or whose card there has an error."""
    card = catalog.get(model_id)
    wrong = f"{model_id} cannot be loaded. {card.error}" if card else f"There is no model {model_id[:100]!r}."
    available = [card.id for card in catalog.values() if card.error is None]
    names = ", ".join(available) or "none; put one into a folder named by STOA_MODELS_DIR"
    return ApiError(
        404,
        f"{wrong} Available: {names}.",
        code="MODEL_NOT_FOUND",
        details={"available_models": available},
    )


def _entries(root: Path) -> Iterator[Path]:
    """What lies in a model folder under names that can be told; hidden things are nobody's models."""
    try:
        names = os.listdir(root)
    except OSError:
        return
    for name in names:
        if not name.startswith(".") and name.isprintable() and len(name) <= LONGEST_ID:
            yield root / name


def _kind(path: Path) -> str | None:
    """What kind of model a path is; None for what is none."""
    try:
        if (path / "config.json").is_file():
            return SAFETENSORS
        return GGUF if path.suffix == ".gguf" or any(path.glob("*.gguf")) else None
    except OSError:
        return None


def _card(path: Path, kind: str, root: Path) -> ModelCard:
    """As it was read before, unless a file has changed since."""
    try:
        found = (kind, path.lstat().st_mtime_ns, *fingerprint(path))
    except OSError as error:
        return _failed(path, kind, f"Its files cannot be read: {error.strerror}.")
    before = _read.get(path)
    if before is None or before[0] != found:
        before = _read[path] = (found, _read_card(path, kind, root))
    return before[1]


def _read_card(path: Path, kind: str, root: Path) -> ModelCard:
    try:
        if wrong := _strange(path, root):
            return _failed(path, kind, wrong)
        facts = inspect_model(path)
    except ModelLoadFailed as error:
        return _failed(path, kind, str(error))
    except OSError as error:
        return _failed(path, kind, f"Its files cannot be read: {error.strerror}.")
    return _whole(path, facts)


def _whole(path: Path, facts: ModelFacts) -> ModelCard:
    return ModelCard(
        id=path.name,
        path=path,
        type=facts.format,
        size_bytes=facts.size_bytes,
        context_size=facts.context_size,
        capabilities=facts.capabilities,
        changed_at=_changed_at(path),
        error=None,
        parameters=facts.parameters,
        dtype=facts.dtype,
        quantization=facts.quantization,
    )


def _remote(model: RemoteModel) -> ModelCard:
    return ModelCard(
        id=model.id,
        path=None,
        type=REMOTE,
        size_bytes=0,
        context_size=model.context_size,
        capabilities=model.capabilities,
        changed_at=0,
        error=None,
    )


def _failed(path: Path, kind: str, error: str) -> ModelCard:
    return ModelCard(
        id=path.name,
        path=path,
        type=kind,
        size_bytes=0,
        context_size=0,
        capabilities=(),
        changed_at=_changed_at(path),
        error=_told(error),
    )


def _told(error: str) -> str:
    """A reason as it goes over the wire. It may name what is in the model, and that need not be text."""
    return error[:LONGEST_ERROR].encode(errors="replace").decode()


def _changed_at(path: Path) -> int:
    try:
        return int(path.lstat().st_mtime)
    except OSError:
        return 0


def _strange(model: Path, root: Path) -> str | None:
    """Why a model is refused for the first thing in it that leads out of its model folder, or that is no file: to read
    a pipe is to wait for ever."""
    paths: Iterable[Path] = chain([model], model.rglob("*") if model.is_dir() else [])
    for number, path in enumerate(paths):
        if number > MOST_FILES:
            return f"The folder has more than {MOST_FILES} files. A model has a few."
        if not Path(os.path.realpath(path)).is_relative_to(root):  # which takes links that lead to themselves
            return f"{path.name} is a link to outside the model folder; put the files themselves there."
        if not (path.is_file() or path.is_dir()):
            return f"{path.name} is neither a file nor a folder: remove it."
    return None
