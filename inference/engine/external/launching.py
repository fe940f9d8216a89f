"""The launch of an engine's server for a model, with what it needs checked first."""

import os
from collections.abc import Callable
from pathlib import Path

from inference.engine.errors import InvalidRequest
from inference.engine.external.engine import ExternalEngine
from inference.engine.external.installation import LLAMA_CPP, gpu_share, installed_folder, is_installed
from inference.engine.external.kinds import (
    ENGINES_VARIABLE,
    GGUF,
    SAFETENSORS,
    SOCKET_VARIABLE,
    EngineKind,
    cache_bytes,
    check_engine_options,
    engine_kind,
)
from inference.engine.external.server import ENGINES_WITH_SOCKETS, ServerPlan, free_port
from inference.engine.formats import find_gguf, inspect_model
from inference.engine.model_status import LoadOptions
from inference.engine.outputs import GenerationOutput
from inference.engine.text import Tokenizer


def launch_engine(
    *,
    path: Path,
    options: LoadOptions,
    context_size: int,
    tokenizer: Tokenizer,
    eos_ids: frozenset[int],
    vocabulary: int,
    emit: Callable[[list[GenerationOutput]], None],
) -> ExternalEngine:
    """Return the engine when its server is ready.

    Raise InvalidRequest for options that the engine does not have, or ModelLoadFailed if its server does not start.
    """
    kind, gguf = engine_kind(options.engine), find_gguf(path)
    engines = Path(os.environ.get(ENGINES_VARIABLE, "var/engines"))
    _check(kind, options, engines, GGUF if gguf else SAFETENSORS)
    metadata = inspect_model(path)
    plan = ServerPlan(
        kind=kind,
        folder=installed_folder(engines, kind).absolute(),
        model=(gguf or path).absolute(),
        socket=Path(os.environ[SOCKET_VARIABLE]).with_suffix(".e.sock"),
        port=0 if kind.name in ENGINES_WITH_SOCKETS else free_port(),
        options=options,
        context_size=context_size,
        weight_bytes=metadata.size_bytes,
        cache_bytes=cache_bytes(
            kind,
            dict(options.engine_options),
            metadata.cache_values * context_size * options.max_sequences,
        ),
        gpu_share=gpu_share(engines, kind, options.gpu_layers, metadata.layers),
    )
    engine = ExternalEngine(plan=plan, tokenizer=tokenizer, eos_ids=eos_ids, vocabulary=vocabulary, emit=emit)
    engine.launch()
    return engine


def _check(kind: EngineKind, options: LoadOptions, engines: Path, file_format: str) -> None:
    check_engine_options(kind.name, dict(options.engine_options))
    neutral: dict[str, str | int] = {"quantization": "none", "cache_dtype": "auto"}
    neutral |= {"dtype": "auto"} if kind.name == LLAMA_CPP else {"gpu_layers": 0}
    for name, value in neutral.items():
        if getattr(options, name) != value:
            raise InvalidRequest(
                f"`{name}` is no option of {kind.name}: leave it out. {kind.name} has these `engine_options`: "
                f"{', '.join(kind.options)}.",
                parameter=name,
            )
    if file_format != kind.format:
        raise InvalidRequest(
            f"{kind.name} reads {kind.format} files, and this model has {file_format}. Load it with another `engine`.",
            parameter="engine",
        )
    if not is_installed(engines, kind):
        raise InvalidRequest(
            f"{kind.name} is not installed on this server. An operator installs it with "
            f"`stoa engines install {kind.name}`.",
            parameter="engine",
        )
