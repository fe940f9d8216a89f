"""Looks a model folder over before any library reads it: nothing in it may run code or point outside it."""

import hashlib
import json
from pathlib import Path
from typing import Any

from inference.engine.errors import ModelLoadFailed

CODE = frozenset({".py", ".pyc", ".pyd", ".so", ".dll", ".dylib", ".sh", ".exe"})
ATTENTION = (None, "eager", "sdpa", "flash_attention_2")
DIGESTS = "SHA256SUMS"
MOST_FILES = 10_000
CONFIG_LIMIT = 1024 * 1024  # bytes
JSON_LIMIT = 64 * 1024 * 1024  # bytes; the largest known index is a tenth of it


def read_model_folder(path: Path) -> dict[str, Any]:
    """The content of the folder's config.json. Raises ModelLoadFailed with the reason when the folder is refused."""
    if not path.is_dir():
        raise ModelLoadFailed("The model's folder does not exist.")
    for number, file in enumerate(path.rglob("*")):
        if number >= MOST_FILES:
            raise ModelLoadFailed(f"The folder has more than {MOST_FILES} files. A model has a few.")
        if file.suffix.lower() in CODE:
            raise ModelLoadFailed(f"The folder holds code ({file.name}). Models are data only: remove it.")
    if (path / "adapter_config.json").exists():
        raise ModelLoadFailed("The folder is an adapter. Merge it into its base model first.")
    config = read_json(path / "config.json", CONFIG_LIMIT)
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        if (path / name).exists():
            _refuse_keys(read_json(path / name), name)
    weight_files(path)
    return config


def read_json(file: Path, limit: int = JSON_LIMIT) -> dict[str, Any]:
    """An object from a JSON file. Raises ModelLoadFailed when the file is missing, too large or something else."""
    content = _read(file, limit)
    if not isinstance(content, dict):
        raise ModelLoadFailed(f"{file.name} must hold a JSON object.")
    return content


def read_objects(file: Path) -> list[dict[str, Any]]:
    """The same for a list of objects."""
    content = _read(file, CONFIG_LIMIT)
    if not isinstance(content, list) or not all(isinstance(item, dict) for item in content):
        raise ModelLoadFailed(f"{file.name} must hold a list of JSON objects.")
    return content


def _read(file: Path, limit: int) -> Any:
    try:
        if file.stat().st_size > limit:
            raise ModelLoadFailed(f"{file.name} is over {limit // 2**20} MiB, which no model needs.")
        return json.loads(file.read_bytes())
    except FileNotFoundError as error:
        raise ModelLoadFailed(f"The folder has no {file.name}.") from error
    except (ValueError, RecursionError) as error:
        raise ModelLoadFailed(f"{file.name} is not valid JSON.") from error


def _refuse_keys(node: Any, name: str) -> None:
    """Keys by which a library would import, fetch or run something else than its own modelling code."""
    if isinstance(node, list):
        for item in node:
            _refuse_keys(item, name)
    elif isinstance(node, dict):
        for key, value in node.items():
            kernels = key.strip("_").endswith(("attn_implementation", "experts_implementation")) and value in ATTENTION
            if key in ("auto_map", "quantization_config") or ("_implementation" in key and not kernels):
                raise ModelLoadFailed(f"{name} has `{key}`, which is not supported: only plain weights are loaded.")
            _refuse_keys(value, name)


def weight_files(path: Path) -> list[Path]:
    """The files with the folder's weights. Raises ModelLoadFailed when there are none, or an index names others."""
    index = path / "model.safetensors.index.json"
    if index.exists():
        weight_map = read_json(index).get("weight_map")
        names = {str(name) for name in weight_map.values()} if isinstance(weight_map, dict) else {""}
        if not all(Path(name).name == name and (path / name).is_file() for name in names):
            raise ModelLoadFailed("model.safetensors.index.json names files that are not in the folder.")
        return [path / name for name in sorted(names)]
    if not (path / "model.safetensors").is_file():
        raise ModelLoadFailed("The folder has no model.safetensors. Other formats of weights are not loaded.")
    return [path / "model.safetensors"]


def check_digests(path: Path) -> None:
    """Where the folder has a SHA256SUMS, as sha256sum writes it, its files must be those. Reads them all."""
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
                raise ModelLoadFailed(f"{file.name} is not what {DIGESTS} says it is. Download it again.")
