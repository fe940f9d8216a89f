"""Looks a model folder over before any library reads it: nothing in it may run code or point outside it."""

import json
from pathlib import Path
from typing import Any

from inference.engine.errors import ModelLoadFailed

CODE = frozenset({".py", ".pyc", ".pyd", ".so", ".dll", ".dylib", ".sh", ".exe"})
ATTENTION = (None, "eager", "sdpa", "flash_attention_2")
JSON_LIMIT = 64 * 1024 * 1024  # bytes; the largest known index is a tenth of it


def read_model_folder(path: Path) -> dict[str, Any]:
    """The content of the folder's config.json. Raises ModelLoadFailed with the reason when the folder is refused."""
    if not path.is_dir():
        raise ModelLoadFailed("The model's folder does not exist.")
    for file in list(path.rglob("*")):
        if file.suffix.lower() in CODE:
            raise ModelLoadFailed(f"The folder holds code ({file.name}). Models are data only: remove it.")
    if (path / "adapter_config.json").exists():
        raise ModelLoadFailed("The folder is an adapter. Merge it into its base model first.")
    config = read_json(path / "config.json")
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        if (path / name).exists():
            _refuse_keys(read_json(path / name), name)
    _check_weights(path)
    return config


def read_json(file: Path) -> dict[str, Any]:
    """An object from a JSON file. Raises ModelLoadFailed when the file is missing, too large or something else."""
    try:
        if file.stat().st_size > JSON_LIMIT:
            raise ModelLoadFailed(f"{file.name} is too large.")
        content = json.loads(file.read_bytes())
    except FileNotFoundError as error:
        raise ModelLoadFailed(f"The folder has no {file.name}.") from error
    except (ValueError, RecursionError) as error:
        raise ModelLoadFailed(f"{file.name} is not valid JSON.") from error
    if not isinstance(content, dict):
        raise ModelLoadFailed(f"{file.name} must hold a JSON object.")
    return content


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


def _check_weights(path: Path) -> None:
    """There are safetensors files, and an index names only files of this folder."""
    index = path / "model.safetensors.index.json"
    if index.exists():
        weight_map = read_json(index).get("weight_map")
        names = {str(name) for name in weight_map.values()} if isinstance(weight_map, dict) else {""}
        if not all(Path(name).name == name and (path / name).is_file() for name in names):
            raise ModelLoadFailed("model.safetensors.index.json names files that are not in the folder.")
    elif not (path / "model.safetensors").is_file():
        raise ModelLoadFailed("The folder has no model.safetensors. Other formats of weights are not loaded.")
