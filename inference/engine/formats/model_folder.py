"""Checks of a model folder before any library reads it: nothing in it may run code or refer to outside files."""

import hashlib
import json
from pathlib import Path
from typing import Any

from inference.engine.errors import ModelLoadFailed

CODE_SUFFIXES = frozenset({".py", ".pyc", ".pyd", ".so", ".dll", ".dylib", ".sh", ".exe"})
ATTENTION_IMPLEMENTATIONS = (None, "eager", "sdpa", "flash_attention_2")
DIGESTS = "SHA256SUMS"
MAX_FILE_COUNT = 10_000
MAX_CONFIG_BYTES = 1024 * 1024
MAX_JSON_BYTES = 64 * 1024 * 1024  # the largest known index is a tenth of it


def read_model_folder(path: Path) -> dict[str, Any]:
    """Check a folder and return the content of its config.json. Raise ModelLoadFailed with the reason."""
    check_content(path)
    if (path / "adapter_config.json").exists():
        raise ModelLoadFailed("The folder is an adapter, which cannot be loaded without its base model.")
    config = read_json(path / "config.json", MAX_CONFIG_BYTES)
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        if (path / name).exists():
            _check_keys(read_json(path / name), name)
    weight_files(path)
    return config


def check_content(path: Path) -> None:
    """Raise ModelLoadFailed if a folder is missing, or holds code or too many files."""
    if not path.is_dir():
        raise ModelLoadFailed("The model's folder does not exist.")
    for number, file in enumerate(path.rglob("*")):
        if number >= MAX_FILE_COUNT:
            raise ModelLoadFailed(
                f"The folder has more than {MAX_FILE_COUNT} files. Remove all that are not the model's."
            )
        if file.suffix.lower() in CODE_SUFFIXES:
            raise ModelLoadFailed(f"The folder holds code ({file.name}). Models are data only: remove it.")


def read_json(file: Path, max_bytes: int = MAX_JSON_BYTES) -> dict[str, Any]:
    """Return the object of a JSON file. Raise ModelLoadFailed if it is missing, too large or no object."""
    content = _read(file, max_bytes)
    if not isinstance(content, dict):
        raise ModelLoadFailed(f"{file.name} must hold a JSON object.")
    return content


def read_objects(file: Path) -> list[dict[str, Any]]:
    """Return the list of objects of a JSON file. Raise ModelLoadFailed as `read_json` does."""
    content = _read(file, MAX_CONFIG_BYTES)
    if not isinstance(content, list) or not all(isinstance(item, dict) for item in content):
        raise ModelLoadFailed(f"{file.name} must hold a list of JSON objects.")
    return content


def _read(file: Path, max_bytes: int) -> Any:
    try:
        if file.stat().st_size > max_bytes:
            raise ModelLoadFailed(f"{file.name} must be at most {max_bytes // 2**20} MiB.")
        return json.loads(file.read_bytes())
    except FileNotFoundError as error:
        raise ModelLoadFailed(f"The folder has no {file.name}.") from error
    except (ValueError, RecursionError) as error:
        raise ModelLoadFailed(f"{file.name} is not valid JSON.") from error


def _check_keys(node: Any, name: str) -> None:
    """Raise ModelLoadFailed for keys that make a library import, fetch or run other code than its own."""
    if isinstance(node, list):
        for item in node:
            _check_keys(item, name)
    elif isinstance(node, dict):
        for key, value in node.items():
            selects_kernels = key.strip("_").endswith(("attn_implementation", "experts_implementation"))
            is_allowed = selects_kernels and value in ATTENTION_IMPLEMENTATIONS
            if key in ("auto_map", "quantization_config") or ("_implementation" in key and not is_allowed):
                raise ModelLoadFailed(f"{name} has `{key}`, which is not supported: only plain weights are loaded.")
            _check_keys(value, name)


def weight_files(path: Path) -> list[Path]:
    """Return the folder's files of weights. Raise ModelLoadFailed if there are none, or an index names others."""
    index = path / "model.safetensors.index.json"
    if index.exists():
        weight_map = read_json(index).get("weight_map")
        names = {str(name) for name in weight_map.values()} if isinstance(weight_map, dict) else {""}
        if not all(Path(name).name == name and (path / name).is_file() for name in names):
            raise ModelLoadFailed("model.safetensors.index.json names files that are not in the folder.")
        return [path / name for name in sorted(names)]
    if not (path / "model.safetensors").is_file():
        raise ModelLoadFailed("The folder has no model.safetensors. Other formats of weights are not supported.")
    return [path / "model.safetensors"]


def check_digests(path: Path) -> None:
    """Raise ModelLoadFailed if files differ from the folder's SHA256SUMS. Without that file nothing is checked."""
    sums = path / DIGESTS
    if not sums.is_file():
        return
    for line in sums.read_text(errors="replace").splitlines():
        digest, _, name = line.strip().partition(" ")
        file = path / name.lstrip(" *")
        if not name or file.parent != path or not file.is_file():
            raise ModelLoadFailed(f"{DIGESTS} names files that are not in the folder.")
        with file.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != digest.lower():
                raise ModelLoadFailed(f"{file.name} does not match its digest in {DIGESTS}. Download it again.")
