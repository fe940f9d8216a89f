"""The loader: a model folder or GGUF file to a model that is ready to run."""

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import msgspec
import torch
from transformers import AutoModel, AutoModelForSequenceClassification, PreTrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils import logging as transformers_logging

from inference.engine.errors import EngineError, InvalidRequest, ModelLoadFailed
from inference.engine.external import STOA
from inference.engine.external.engine import ExternalEngine
from inference.engine.external.launching import launch_engine
from inference.engine.formats import (
    CLASSIFIER_SUFFIX,
    FULL_TYPES,
    WINDOWED_TYPES,
    LoadCache,
    check_digests,
    find_gguf,
    inspect_model,
    read_json,
    read_model_folder,
)
from inference.engine.formats.gguf_weights import GGUFModel, GGUFTensors, read_gguf
from inference.engine.model_status import LoadOptions, LoadReport
from inference.engine.models import FOLDER_VARIABLE, kernels_pending, wait_for_kernels
from inference.engine.models.architecture import rope_limit
from inference.engine.models.classifier import Classifier
from inference.engine.models.decoders import check_options, open_decoder, read_config, read_model
from inference.engine.models.embedder import Embedder, position_limit, read_max_length, read_pooling
from inference.engine.models.encoder import LENGTH_STEP, compute_first_token_only
from inference.engine.models.layers.linear import packs
from inference.engine.models.llama_decoder import LlamaDecoder
from inference.engine.models.native_decoder import NativeDecoder
from inference.engine.models.packing import pack_linears
from inference.engine.outputs import GenerationOutput
from inference.engine.processors import physical_cores
from inference.engine.scheduling import Engine
from inference.engine.text import Tokenizer, load_tokenizer

logger = logging.getLogger(__name__)

DEFAULT_CONTEXT = 2048
CACHE_FOLDER = "loads"  # beside the compiled kernels
TOKENIZER_ENTRY = "tokenizer"
# In GGUF files; others have a class of their own.
GENERIC_TOKENIZERS = ("llama", "qwen2", "qwen3", "smollm3", "olmo2", "granite")
DEQUANTIZED = "The GGUF file's weights were dequantized: see memory_usage_bytes."
WINDOW = "This architecture is computed up to its sliding window only, which limits the context to"
USE_INT8 = "Load with quantization int8 to use less memory."
NO_INT4 = "Without compiled kernels the weights have 8 bits each: see `kernels`."
NO_INT8 = "This processor has no int8 kernels for encoders: `quantization` is not in effect."
NO_BFLOAT16 = "This processor has no bfloat16 kernels: the weights are float32."
ALL_ON_CPU = "All layers run on the CPU: there is no GPU that this model can use."
CAUSAL_ARCHITECTURES = frozenset(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values())


@dataclass
class LoadedModel:
    """A model in memory. A causal one has an engine, which is not started yet; others an embedder or a classifier."""

    report: LoadReport
    engine: Engine | ExternalEngine | None = None
    embedder: Embedder | None = None
    classifier: Classifier | None = None


@dataclass(frozen=True)
class _Load:
    """A load in progress. path: of the model, or of the base model of an adapter."""

    model_id: str
    path: Path
    adapter: Path | None
    options: LoadOptions
    started_at: float
    cache: LoadCache
    threads: int

    def report(
        self,
        *,
        context_size: int,
        weight_bytes: int,
        kernels: str,
        cache_limit_bytes: int = 0,
        cache_dtype: str = "float32",
        gpu_layers: int = 0,
        gpu_memory_bytes: int = 0,
        warning: str | None = None,
    ) -> LoadReport:
        on_cpu = ALL_ON_CPU if self.options.gpu_layers and not gpu_layers else None
        return LoadReport(
            model_id=self.model_id,
            memory_usage_bytes=weight_bytes + cache_limit_bytes,
            weight_bytes=weight_bytes,
            cache_limit_bytes=cache_limit_bytes,
            cache_dtype=cache_dtype,
            gpu_memory_bytes=gpu_memory_bytes,
            load_time_ms=round((time.monotonic() - self.started_at) * 1000),
            gpu_layers=gpu_layers,
            context_size=context_size,
            batch_size=self.options.batch_size,
            max_sequences=self.options.max_sequences,
            dtype=self.options.dtype.replace("auto", "bfloat16" if gpu_layers else "float32"),
            quantization=self.options.quantization,
            device="cuda" if gpu_layers else "cpu",
            kernels=kernels,
            engine=self.options.engine,
            warning=" ".join(filter(None, (on_cpu, warning))) or None,
        )


def load_model(
    model_id: str,
    path: Path,
    options: LoadOptions,
    emit: Callable[[list[GenerationOutput]], None],
    base: Path | None = None,
) -> LoadedModel:
    """Load the model at `path` into this process, and set torch's number of threads.

    base: path of its base model, if it is an adapter. Tokenizer, chat template and configuration are the base's.
    Raise ModelLoadFailed with the reason, or InvalidRequest for an option that this model does not support.
    """
    compiled = os.environ.get(FOLDER_VARIABLE)
    adapter, path = (path, base) if base else (None, path)
    cache = LoadCache(Path(compiled) / CACHE_FOLDER if compiled else None, path, *([adapter] if adapter else []))
    load = _Load(model_id, path, adapter, options, time.monotonic(), cache, physical_cores())
    _check_options(options)
    # Beside a busy process, two threads wait for each other at each of the thousands of small operations of a load.
    torch.set_num_threads(1)
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        if adapter:
            check_digests(adapter)
        if gguf := find_gguf(path):
            model = read_gguf(gguf)
            return _load_causal(load, model, _load_gguf_tokenizer(load, gguf, model), emit)
        check_digests(path)
        architectures = read_model_folder(path).get("architectures") or [None]
        if architectures[0] in CAUSAL_ARCHITECTURES:
            return _load_causal(load, path, load_tokenizer(path), emit)
        if adapter:
            raise ModelLoadFailed("The base model of an adapter must be one that generates text.")
        if options.engine != STOA:
            raise InvalidRequest(
                f"{options.engine} runs models that generate text here: leave out `engine`, and {STOA} runs this one.",
                parameter="engine",
            )
        torch.set_num_threads(load.threads)
        return _load_classifier(load) if str(architectures[0]).endswith(CLASSIFIER_SUFFIX) else _load_encoder(load)
    except EngineError:
        raise
    except torch.OutOfMemoryError as error:
        raise ModelLoadFailed(_gpu_is_full(load)) from error
    except Exception as error:
        # Libraries raise anything on a broken folder. Its path is not disclosed.
        reason = str(error)
        for folder in filter(None, (adapter, path)):
            reason = reason.replace(str(folder), model_id)
        reason = reason or type(error).__name__
        raise ModelLoadFailed(f"{model_id} could not be loaded: {reason}") from error


def _gpu_is_full(load: _Load) -> str:
    free, total = torch.cuda.mem_get_info()
    return (
        f"{load.model_id} does not fit into the GPU's memory: {free} of {total} bytes were free when it was full. Load "
        "it with a smaller `context_size` or `max_sequences`, with `quantization` int8, or with fewer `gpu_layers`."
    )


def _load_gguf_tokenizer(load: _Load, gguf: Path, model: GGUFModel) -> Tokenizer:
    if cached := load.cache.find(TOKENIZER_ENTRY):
        with contextlib.suppress(OSError, ValueError, KeyError):  # an incomplete entry, which is made again
            return load_tokenizer(load.path, cached=cached)
    is_generic = isinstance(model.tensors, GGUFTensors) and model.config.model_type in GENERIC_TOKENIZERS
    tokenizer = load_tokenizer(load.path, gguf, is_generic=is_generic)
    with load.cache.new(TOKENIZER_ENTRY) as folder:
        if folder:
            tokenizer.save(folder)
    return tokenizer


def _check_options(options: LoadOptions) -> None:
    for name in ("context_size", "batch_size", "max_sequences"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise InvalidRequest(f"`{name}` must be 1 or more, not {value}.", parameter=name)
    for name in ("max_queue", "max_queue_tokens"):
        if getattr(options, name) < 0:
            raise InvalidRequest(f"`{name}` must be 0 or more, not {getattr(options, name)}.", parameter=name)
    check_options(options)


def _load_causal(
    load: _Load, source: Path | GGUFModel, tokenizer: Tokenizer, emit: Callable[[list[GenerationOutput]], None]
) -> LoadedModel:
    config = read_config(source)
    if load.options.engine != STOA:
        if load.adapter:
            raise InvalidRequest(f"Adapters run on the engine {STOA}: leave out `engine`.", parameter="engine")
        return _load_external(load, config, tokenizer, emit)
    has_windows = config.model_type in WINDOWED_TYPES | FULL_TYPES
    limits = [*_limits(config, has_windows=has_windows), *_rope_limits(config)]
    context_size, clamped = _context_size(load.options, limits)
    decoder = open_decoder(source, load.options, context_size, load.cache, load.adapter)
    engine = Engine(
        decoder=decoder,
        tokenizer=tokenizer,
        eos_ids=_eos_ids(load.path, config, tokenizer),
        context_size=context_size,
        vocabulary=config.get_text_config().vocab_size,
        options=load.options,
        emit=emit,
    )
    warning = None
    is_kept = isinstance(decoder, NativeDecoder) and decoder.is_all_blocks
    if isinstance(source, GGUFModel) and load.options.quantization == "none" and not is_kept:
        warning = DEQUANTIZED if decoder.gpu_layers else f"{DEQUANTIZED} {USE_INT8}"
    if load.options.quantization == "int4" and not isinstance(decoder, NativeDecoder):
        warning = NO_INT4
    limits = [*_limits(config, has_windows=True), *_rope_limits(config)]
    if context_size < min([load.options.context_size or DEFAULT_CONTEXT, *limits]):
        clamped = f"{WINDOW} {context_size} tokens."
    warning = " ".join(filter(None, (clamped, warning))) or None
    if isinstance(decoder, LlamaDecoder) and not decoder.gpu_layers and kernels_pending():
        threading.Thread(target=_switch_to_kernels, args=(load, engine, decoder, context_size), daemon=True).start()
    report = load.report(
        context_size=context_size,
        weight_bytes=decoder.weight_bytes,
        cache_limit_bytes=decoder.cache_limit_bytes,
        cache_dtype=decoder.cache_dtype,
        kernels=decoder.kernels,
        gpu_layers=decoder.gpu_layers,
        gpu_memory_bytes=decoder.gpu_bytes,
        warning=warning,
    )
    return LoadedModel(report, engine=engine)


def _load_external(
    load: _Load, config: PreTrainedConfig, tokenizer: Tokenizer, emit: Callable[[list[GenerationOutput]], None]
) -> LoadedModel:
    """Start another engine's server on the model, and return when it is ready."""
    context_size, clamped = _context_size(load.options, _limits(config, has_windows=True))
    engine = launch_engine(
        path=load.path,
        options=load.options,
        context_size=context_size,
        tokenizer=tokenizer,
        eos_ids=_eos_ids(load.path, config, tokenizer),
        vocabulary=config.get_text_config().vocab_size,
        emit=emit,
    )
    report = load.report(
        context_size=context_size,
        weight_bytes=engine.loaded_bytes + engine.gpu_weight_bytes,
        cache_limit_bytes=engine.cache_bytes,
        kernels=load.options.engine,
        gpu_layers=load.options.gpu_layers if engine.gpu_share else 0,
        gpu_memory_bytes=engine.gpu_bytes,
        warning=clamped,
    )
    report = msgspec.structs.replace(
        report,
        device="cuda" if engine.gpu_share else "cpu",
        dtype=inspect_model(load.path).dtype if load.options.dtype == "auto" else load.options.dtype,
        cache_dtype=dict(load.options.engine_options).get("cache_type_k", "auto"),
    )
    return LoadedModel(report, engine=engine)


def _switch_to_kernels(load: _Load, engine: Engine, before: LlamaDecoder, context_size: int) -> None:
    """Load the model again once the kernels are built, and switch the engine to them if they are faster."""
    if not wait_for_kernels():
        return
    gguf = find_gguf(load.path)
    try:
        source = read_gguf(gguf) if gguf else load.path
        decoder = open_decoder(source, load.options, context_size, load.cache, load.adapter)
    except EngineError as error:
        logger.warning("engine.kernels_not_used reason=%r", error.message)
        return
    if isinstance(decoder, NativeDecoder):
        engine.replace_decoder(partial(_move_cache, before, decoder))


def _move_cache(before: LlamaDecoder, after: NativeDecoder, filled: Mapping[int, int]) -> NativeDecoder:
    for slot, length in filled.items():
        after.import_slot(slot, before.export_slot(slot, length))
    return after


def _load_encoder(load: _Load) -> LoadedModel:
    model, tokenizer = read_model(AutoModel, load.path), load_tokenizer(load.path)
    report = _prepare_encoder(load, model, tokenizer)
    pooling = read_pooling(load.path)
    if pooling == "cls":
        compute_first_token_only(model)
    embedder = Embedder(
        model=model,
        tokenizer=tokenizer,
        pooling=pooling,
        context_size=report.context_size,
        length_multiple=_length_multiple(report),
    )
    return LoadedModel(report, embedder=embedder)


def _load_classifier(load: _Load) -> LoadedModel:
    model = read_model(AutoModelForSequenceClassification, load.path, uses_pooler=True)
    tokenizer = load_tokenizer(load.path)
    report = _prepare_encoder(load, model, tokenizer)
    compute_first_token_only(model)
    classifier = Classifier(
        model=model,
        tokenizer=tokenizer,
        context_size=report.context_size,
        length_multiple=_length_multiple(report),
    )
    return LoadedModel(report, classifier=classifier)


def _prepare_encoder(load: _Load, model: PreTrainedModel, tokenizer: Tokenizer) -> LoadReport:
    """Pack the weights of a model without a cache, and return the report of its load, with the options in effect."""
    limits = [*_limits(model.config), *position_limit(model), tokenizer.max_length, *read_max_length(load.path)]
    context_size, clamped = _context_size(load.options, limits)
    memory, options, warnings = _weight_bytes(model), load.options, [clamped]
    dtype = torch.bfloat16 if options.dtype == "bfloat16" else torch.float32
    if dtype == torch.bfloat16 and not packs(dtype):
        options, dtype = msgspec.structs.replace(options, dtype="float32"), torch.float32
        warnings.append(NO_BFLOAT16)
    if options.quantization == "int4":
        raise InvalidRequest("`quantization` must be none or int8 for encoders.", parameter="quantization")
    if options.quantization == "int8" and packs(torch.int8):
        dtype = torch.int8
    elif options.quantization == "int8":
        options = msgspec.structs.replace(options, quantization="none")
        warnings.append(NO_INT8)
    return replace(load, options=options).report(
        context_size=context_size,
        weight_bytes=memory - pack_linears(model, dtype),
        kernels="transformers",
        warning=" ".join(filter(None, warnings)) or None,
    )


def _length_multiple(report: LoadReport) -> int:
    return LENGTH_STEP if report.quantization == "int8" else 1


def _limits(config: PreTrainedConfig, *, has_windows: bool = False) -> list[int]:
    """Return the architecture's limits of context. Raise ModelLoadFailed for attention other than full or sliding.

    has_windows: the decoder computes sliding attention, or the architecture has none, so that a window is no limit.
    """
    text = config.get_text_config()
    limits = [getattr(text, "max_position_embeddings", None)]
    layers = set(getattr(text, "layer_types", None) or ["sliding_attention"])
    if layers - {"full_attention", "sliding_attention"}:
        raise ModelLoadFailed(f"Layers of type {', '.join(sorted(layers))} are not supported.")
    # Up to the window's size, sliding attention is full attention.
    if "sliding_attention" in layers and not has_windows:
        limits.append(getattr(text, "sliding_window", None))
    if "local" in getattr(text, "attention_layers", ()):  # GPT-Neo's name for it
        limits.append(text.window_size)
    return [limit for limit in limits if limit]


def _rope_limits(config: PreTrainedConfig) -> list[int]:
    limit = rope_limit(config)
    return [limit] if limit else []


def _context_size(options: LoadOptions, limits: list[int]) -> tuple[int, str | None]:
    """Return the context size in effect, and a warning if it is less than requested."""
    limit = min(limits, default=options.context_size or DEFAULT_CONTEXT)
    if options.context_size and options.context_size > limit:
        return limit, f"context_size {options.context_size} is above the model's limit: {limit} is used."
    return options.context_size or min(limit, DEFAULT_CONTEXT), None


def _eos_ids(path: Path, config: PreTrainedConfig, tokenizer: Tokenizer) -> frozenset[int]:
    """Return the end tokens that any of the folder's files names."""
    file = path / "generation_config.json"
    generation = read_json(file).get("eos_token_id") if file.exists() else None
    ids: set[int] = set()
    for eos in (generation, config.get_text_config().eos_token_id, tokenizer.eos_id):
        ids.update(eos if isinstance(eos, list) else [] if eos is None else [eos])
    return frozenset(ids)


def _weight_bytes(model: PreTrainedModel) -> int:
    """Return the bytes of weights and buffers; shared ones count once."""
    tensors = [*model.parameters(), *model.buffers()]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values())
