"""Selection of the files of a repository that a safe load needs.

These are weights in safetensors or GGUF, and the files that describe them: no pickle, no code, no unknown file.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from shared.api.errors import ApiError

DESCRIPTION_FILES = frozenset(
    {
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.json",
        "vocab.txt",
        "merges.txt",
        "tokenizer.model",
        "chat_template.jinja",
        "chat_template.json",
        "modules.json",
        "sentence_bert_config.json",
        "config_sentence_transformers.json",
        "1_Pooling/config.json",
    }
)
INDEX_FILE = "model.safetensors.index.json"

_SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
_SPLIT = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
_QUANTIZATION = re.compile(r"(?:^|[-._])((?:IQ|Q|TQ)\d[A-Z0-9_]*|BF16|F16|F32|MXFP4[A-Z0-9_]*)\.gguf$", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class RepositoryFile:
    """A file as the hub reports it. git_blob: its SHA-1 in git; sha256: of large files, instead."""

    path: str
    size: int
    git_blob: str
    sha256: str | None


@dataclass(frozen=True, kw_only=True)
class Repository:
    """The files of a repository at one commit."""

    id: str
    commit: str
    files: list[RepositoryFile]


def choose_files(
    files: Sequence[RepositoryFile], *, include: Sequence[str] = (), quantize: str | None = None
) -> list[RepositoryFile]:
    """Return the files to download, small ones first. Raise ApiError, which names the available ones.

    include: patterns of the weights to take. quantize: the quantization of the GGUF file to take.
    """
    by_path = {file.path: file for file in files}
    safetensors = [] if quantize or "config.json" not in by_path else _safetensors(by_path)
    ggufs = [path for path in by_path if path.endswith(".gguf") and _is_plain(path) and not path.startswith("mmproj")]
    if quantize:
        ggufs = _with_quantization(ggufs, quantize)
    weights = safetensors or ggufs
    if include:
        weights = _included(include, [*safetensors, *ggufs], by_path)
    if not weights:
        raise ApiError(
            404,
            "The repository has no safetensors or GGUF weights in its root folder; other formats are not supported.",
        )
    if weights[0].endswith(".gguf"):
        return [by_path[_single_gguf(weights)]]
    described = [
        path for path in by_path if path in DESCRIPTION_FILES or (path == INDEX_FILE and _SHARD.match(weights[0]))
    ]
    return [by_path[path] for path in [*sorted(described), *sorted(weights)]]


def _safetensors(by_path: dict[str, RepositoryFile]) -> list[str]:
    """Return one whole set of weights, where a repository has the same weights in several forms."""
    if INDEX_FILE in by_path:
        return sorted(filter(_SHARD.fullmatch, by_path))
    if "model.safetensors" in by_path:
        return ["model.safetensors"]
    others = [path for path in by_path if path.endswith(".safetensors") and _is_plain(path)]
    return others if len(others) == 1 else []


def _with_quantization(ggufs: list[str], quantize: str) -> list[str]:
    matching = [path for path in ggufs if _quantization(path) == quantize.upper()]
    if not matching:
        available = ", ".join(sorted(filter(None, map(_quantization, ggufs))))
        raise ApiError(
            404,
            f"The repository has no GGUF file with quantization {quantize[:20]}. Available: {available}."
            if available
            else "The repository has no GGUF files. Quantize safetensors weights when you load them: "
            "`stoa models load --quantization int8`.",
        )
    return matching


def _included(patterns: Sequence[str], weights: list[str], by_path: dict[str, RepositoryFile]) -> list[str]:
    chosen: list[str] = []
    for pattern in patterns:
        matching = [path for path in by_path if fnmatchcase(path, pattern)]
        supported = [path for path in matching if path in weights]
        if not supported:
            reason = f"{matching[0][:100]} has no supported weights" if matching else "no file matches"
            raise ApiError(400, f"--include {pattern[:100]}: {reason}. Available: {', '.join(weights[:20]) or 'none'}.")
        chosen += [path for path in supported if path not in chosen]
    kinds = {path.rpartition(".")[2] for path in chosen}
    if len(kinds) > 1:
        raise ApiError(400, "--include matches safetensors and GGUF weights. Choose one of the formats.")
    return chosen


def _single_gguf(ggufs: list[str]) -> str:
    if any(map(_SPLIT.search, ggufs)):
        raise ApiError(
            400,
            "The GGUF weights are split into several files, which is not supported. Choose another file or repository.",
        )
    if len(ggufs) > 1:
        available = ", ".join(sorted(filter(None, map(_quantization, ggufs)))) or ", ".join(ggufs[:20])
        raise ApiError(
            400,
            f"The repository has {len(ggufs)} GGUF files. Choose one with --quantize or --include: {available}.",
        )
    return ggufs[0]


def _quantization(path: str) -> str | None:
    match = _QUANTIZATION.search(path)
    return match[1].upper() if match else None


def _is_plain(path: str) -> bool:
    """Return whether a path is a file at the top of the repository."""
    return "/" not in path and "\\" not in path and not path.startswith(".")
