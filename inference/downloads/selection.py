"""Selection of the files of a repository that a safe load needs.

These are weights in safetensors or GGUF, and the files that describe them: no pickle, no code, no unknown file.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from shared.api.errors import ApiError

DESCRIBING = frozenset(
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
INDEX = "model.safetensors.index.json"

_SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
_SPLIT = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
_QUANTISATION = re.compile(r"(?:^|[-._])((?:IQ|Q|TQ)\d[A-Z0-9_]*|BF16|F16|F32|MXFP4[A-Z0-9_]*)\.gguf$", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class RepositoryFile:
    """A file as the hub reports it. git_blob: its SHA-1 in git; sha256: of large files, instead."""

    path: str
    size: int
    git_blob: str
    sha256: str | None


def choose_files(
    files: Sequence[RepositoryFile], *, include: Sequence[str] = (), quantize: str | None = None
) -> list[RepositoryFile]:
    """Return the files to download, small ones first. Raise ApiError, which names the available ones.

    include: patterns of the weights to take. quantize: the quantisation of the GGUF file to take.
    """
    by_path = {file.path: file for file in files}
    safetensors = [] if quantize or "config.json" not in by_path else _safetensors(by_path)
    ggufs = [path for path in by_path if path.endswith(".gguf") and _is_plain(path) and not path.startswith("mmproj")]
    if quantize:
        ggufs = _of_quantisation(ggufs, quantize)
    weights = safetensors or ggufs
    if include:
        weights = _included(include, [*safetensors, *ggufs], by_path)
    if not weights:
        raise ApiError(404, "It has no weights in safetensors or GGUF at its top; other formats are not taken.")
    if weights[0].endswith(".gguf"):
        return [by_path[_only(weights)]]
    described = [path for path in by_path if path in DESCRIBING or (path == INDEX and _SHARD.match(weights[0]))]
    return [by_path[path] for path in [*sorted(described), *sorted(weights)]]


def _safetensors(by_path: dict[str, RepositoryFile]) -> list[str]:
    """Return one whole set of weights, where a repository has the same weights in several forms."""
    if INDEX in by_path:
        return sorted(filter(_SHARD.fullmatch, by_path))
    if "model.safetensors" in by_path:
        return ["model.safetensors"]
    others = [path for path in by_path if path.endswith(".safetensors") and _is_plain(path)]
    return others if len(others) == 1 else []


def _of_quantisation(ggufs: list[str], quantize: str) -> list[str]:
    found = [path for path in ggufs if _quantisation(path) == quantize.upper()]
    if not found:
        there = ", ".join(sorted(filter(None, map(_quantisation, ggufs))))
        raise ApiError(
            404,
            f"It has no GGUF file quantised as {quantize[:20]}. There are: {there}."
            if there
            else "It has no GGUF files; safetensors weights are quantised when they are loaded: "
            "`stoa models load --quantization int8`.",
        )
    return found


def _included(patterns: Sequence[str], weights: list[str], by_path: dict[str, RepositoryFile]) -> list[str]:
    chosen: list[str] = []
    for pattern in patterns:
        matching = [path for path in by_path if fnmatchcase(path, pattern)]
        taken = [path for path in matching if path in weights]
        if not taken:
            why = f"{matching[0][:100]} is not weights that can be taken" if matching else "nothing matches it"
            raise ApiError(400, f"--include {pattern[:100]}: {why}. There are: {', '.join(weights[:20]) or 'none'}.")
        chosen += [path for path in taken if path not in chosen]
    kinds = {path.rpartition(".")[2] for path in chosen}
    if len(kinds) > 1:
        raise ApiError(400, "--include takes safetensors or GGUF weights, not both.")
    return chosen


def _only(ggufs: list[str]) -> str:
    if any(map(_SPLIT.search, ggufs)):
        raise ApiError(400, "Its GGUF weights are split over several files, which is not supported: choose another.")
    if len(ggufs) > 1:
        there = ", ".join(sorted(filter(None, map(_quantisation, ggufs)))) or ", ".join(ggufs[:20])
        raise ApiError(
            400, f"It has {len(ggufs)} GGUF files: choose one with --quantize or --include. There are: {there}."
        )
    return ggufs[0]


def _quantisation(path: str) -> str | None:
    found = _QUANTISATION.search(path)
    return found[1].upper() if found else None


def _is_plain(path: str) -> bool:
    """Return whether a path is a file at the top of the repository."""
    return "/" not in path and "\\" not in path and not path.startswith(".")
