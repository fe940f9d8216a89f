"""Which models there are: folders and GGUF files in the model folders, read without loading anything.

An id is a folder's or file's name. An id from outside is only ever compared with the ids found here, never made part
of a path.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from inference.engine import ModelLoadFailed, find_gguf, read_gguf_header
from shared.api.errors import ApiError

SAFETENSORS = "safetensors"
GGUF = "gguf"
LARGEST_CONFIG_BYTES = 1024 * 1024
TEXT_GENERATION = "text-generation"
EMBEDDINGS = "embeddings"

# What the families of transformers call their limit.
_LIMIT_KEYS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")
_GENERATING = ("ForCausalLM", "LMHeadModel")


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """A model on disk. `error` says why it cannot be loaded; then the other fields hold what could be read."""

    id: str
    path: Path
    type: str
    size_bytes: int
    context_size: int
    capabilities: tuple[str, ...]
    changed_at: int
    error: str | None


class _Unreadable(Exception):
    """Why a folder is no model that can be loaded."""


def read_catalog() -> dict[str, ModelCard]:
    """Every model by id, in order of ids. Of two with one id, the operator's own folders win over the built-in one."""
    cards: dict[str, ModelCard] = {}
    for root in [*settings.MODELS_DIRS, settings.BUILTIN_MODELS_DIR]:
        if root.is_dir():
            for path in root.iterdir():
                if path.name not in cards and (kind := _kind(path)):
                    cards[path.name] = _read_card(path, kind, root.resolve())
    return dict(sorted(cards.items()))


def model_not_found(model_id: str, catalog: dict[str, ModelCard]) -> ApiError:
    """The answer for an id that is not in the catalog."""
    available = [card.id for card in catalog.values() if card.error is None]
    names = ", ".join(available) or "none; put one into a folder named by STOA_MODELS_DIR"
    return ApiError(
        404,
        f"There is no model {model_id[:100]!r}. Available: {names}.",
        code="MODEL_NOT_FOUND",
        details={"available_models": available},
    )


def _kind(path: Path) -> str | None:
    """What kind of model a path is; None for what is none."""
    if (path / "config.json").is_file():
        return SAFETENSORS
    return GGUF if path.suffix == ".gguf" or any(path.glob("*.gguf")) else None


def _read_card(path: Path, kind: str, root: Path) -> ModelCard:
    size_bytes, context_size, error = 0, 0, None
    capabilities: tuple[str, ...] = ()
    try:
        _refuse_links_out(path, root)
        if kind == GGUF:
            file = find_gguf(path) or path
            context_size, capabilities = read_gguf_header(file).context_size, (TEXT_GENERATION,)
            size_bytes = file.stat().st_size
        else:
            config = _read_config(path / "config.json")
            context_size, capabilities = _context_size(config), _capabilities(config)
            size_bytes = _weight_bytes(path)
    except (_Unreadable, ModelLoadFailed) as reason:
        error = str(reason)
    except OSError as reason:
        error = f"Its files cannot be read: {reason.strerror}."
    return ModelCard(
        id=path.name,
        path=path,
        type=kind,
        size_bytes=size_bytes,
        context_size=context_size,
        capabilities=capabilities,
        changed_at=int(path.lstat().st_mtime),
        error=error,
    )


def _refuse_links_out(model: Path, root: Path) -> None:
    for path in (model, *(model.iterdir() if model.is_dir() else ())):
        if not path.resolve().is_relative_to(root):
            raise _Unreadable(f"{path.name} is a link to outside the model folder; put the files themselves there.")


def _read_config(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        raw = file.read(LARGEST_CONFIG_BYTES + 1)
    if len(raw) > LARGEST_CONFIG_BYTES:
        raise _Unreadable("config.json is over 1 MiB, which no model needs.")
    try:
        config = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _Unreadable("config.json is not valid JSON.") from error
    if not isinstance(config, dict):
        raise _Unreadable("config.json is not a JSON object.")
    return config


def _context_size(config: dict[str, Any]) -> int:
    for key in _LIMIT_KEYS:
        limit = config.get(key)
        if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0:
            return limit
    raise _Unreadable(f"config.json does not say how long a text may be ({', '.join(_LIMIT_KEYS)}).")


def _capabilities(config: dict[str, Any]) -> tuple[str, ...]:
    architectures = config.get("architectures")
    if not isinstance(architectures, list) or not all(isinstance(name, str) for name in architectures):
        raise _Unreadable("config.json does not name the model's architectures.")
    generates = any(name.endswith(_GENERATING) for name in architectures)
    return (TEXT_GENERATION,) if generates else (EMBEDDINGS,)


def _weight_bytes(folder: Path) -> int:
    sizes = [path.stat().st_size for path in folder.glob("*.safetensors")]
    if not sizes:
        raise _Unreadable("It has no .safetensors weights; other formats are not read.")
    return sum(sizes)
