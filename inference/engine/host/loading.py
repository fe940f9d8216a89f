"""From a folder on disk to a model ready to run."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils import logging as transformers_logging

from inference.engine.errors import EngineError, InvalidRequest, ModelLoadFailed
from inference.engine.formats import check_digests, find_gguf, read_json, read_model_folder
from inference.engine.formats.gguf_weights import GGUFModel, read_gguf
from inference.engine.model_status import LoadOptions, LoadReport
from inference.engine.models import kernels_are_to_come, wait_for_kernels
from inference.engine.models.decoders import check_options, open_decoder, read_config, read_model
from inference.engine.models.embedder import Embedder, position_limit, read_max_length, read_pooling
from inference.engine.models.llama_decoder import LlamaDecoder
from inference.engine.models.native_decoder import NativeDecoder
from inference.engine.models.packing import pack_linears
from inference.engine.outputs import GenerationOutput
from inference.engine.scheduling import Engine
from inference.engine.text import Tokenizer, load_tokenizer

logger = logging.getLogger(__name__)

DEFAULT_CONTEXT = 2048
MAX_THREADS = 2  # small matrix products are no faster on more, and a busy neighbour makes them slower
DEQUANTISED = "The GGUF file's weights were dequantised: see memory_usage_bytes."
LESS = "Load with quantization int8 for less."
ALL_ON_CPU = "All layers run on the CPU: there is no GPU that this model can use."
CAUSAL = frozenset(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values())


@dataclass
class LoadedModel:
    """A model in memory: a causal one has an engine (not started yet), an encoder an embedder."""

    report: LoadReport
    engine: Engine | None
    embedder: Embedder | None


@dataclass(frozen=True)
class _Load:
    """One load on its way."""

    model_id: str
    path: Path
    options: LoadOptions
    started: float

    def report(
        self, *, context_size: int, memory: int, kernels: str, gpu_layers: int = 0, warning: str | None = None
    ) -> LoadReport:
        on_cpu = ALL_ON_CPU if self.options.gpu_layers and not gpu_layers else None
        return LoadReport(
            model_id=self.model_id,
            memory_usage_bytes=memory,
            load_time_ms=round((time.monotonic() - self.started) * 1000),
            gpu_layers=gpu_layers,
            context_size=context_size,
            batch_size=self.options.batch_size,
            max_sequences=self.options.max_sequences,
            dtype=self.options.dtype.replace("auto", "bfloat16" if gpu_layers else "float32"),
            quantization=self.options.quantization,
            device="cuda" if gpu_layers else "cpu",
            kernels=kernels,
            warning=" ".join(filter(None, (on_cpu, warning))) or None,
        )


def load_model(
    model_id: str, path: Path, options: LoadOptions, emit: Callable[[list[GenerationOutput]], None]
) -> LoadedModel:
    """Loads the folder at `path` into this process, and sets how many threads torch uses.

    Raises ModelLoadFailed with the reason, or InvalidRequest for an option that this model cannot have.
    """
    load = _Load(model_id, path, options, time.monotonic())
    _check_options(options)
    torch.set_num_threads(min(MAX_THREADS, torch.get_num_threads()))
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        if gguf := find_gguf(path):
            return _load_causal(load, read_gguf(gguf), load_tokenizer(path, gguf), emit)
        check_digests(path)
        architectures = read_model_folder(path).get("architectures") or [None]
        if architectures[0] in CAUSAL:
            return _load_causal(load, path, load_tokenizer(path), emit)
        return _load_encoder(load)
    except EngineError:
        raise
    except Exception as error:
        # Whatever a folder from outside makes the libraries raise. Where it lies is not told.
        reason = str(error).replace(str(path), model_id) or type(error).__name__
        raise ModelLoadFailed(f"{model_id} could not be loaded: {reason}") from error


def _check_options(options: LoadOptions) -> None:
    for name in ("context_size", "batch_size", "max_sequences"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise InvalidRequest(f"`{name}` must be 1 or more.", parameter=name)
    for name in ("max_queue", "max_queue_tokens"):
        if getattr(options, name) < 0:
            raise InvalidRequest(f"`{name}` must be 0 or more.", parameter=name)
    check_options(options)
    if options.quantization == "int8" and options.gpu_layers and torch.cuda.is_available():
        raise InvalidRequest(
            "`quantization` int8 is for models on the CPU: leave out it or `gpu_layers`.", parameter="quantization"
        )


def _load_causal(
    load: _Load, source: Path | GGUFModel, tokenizer: Tokenizer, emit: Callable[[list[GenerationOutput]], None]
) -> LoadedModel:
    config = read_config(source)
    context_size = _context_size(load.options, _limits(config))
    decoder = open_decoder(source, load.options, context_size)
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
    if isinstance(source, GGUFModel) and load.options.quantization == "none":
        warning = DEQUANTISED if decoder.gpu_layers else f"{DEQUANTISED} {LESS}"
    if isinstance(decoder, LlamaDecoder) and not decoder.gpu_layers and kernels_are_to_come():
        threading.Thread(target=_take_up_kernels, args=(load, engine, decoder, context_size), daemon=True).start()
    report = load.report(
        context_size=context_size,
        memory=decoder.weight_bytes + decoder.cache_bytes,
        kernels=decoder.kernels,
        gpu_layers=decoder.gpu_layers,
        warning=warning,
    )
    return LoadedModel(report, engine, None)


def _take_up_kernels(load: _Load, engine: Engine, before: LlamaDecoder, context_size: int) -> None:
    """Reads the model again for compiled kernels when they are there, and swaps them in if they are the faster."""
    if not wait_for_kernels():
        return
    gguf = find_gguf(load.path)
    try:
        decoder = open_decoder(read_gguf(gguf) if gguf else load.path, load.options, context_size)
    except EngineError as error:
        logger.warning("engine_kernels_not_taken_up", extra={"reason": error.message})
        return
    if isinstance(decoder, NativeDecoder):
        engine.swap(partial(_go_on, before, decoder))


def _go_on(before: LlamaDecoder, after: NativeDecoder, held: Mapping[int, int]) -> NativeDecoder:
    for slot, length in held.items():
        after.hold(slot, before.held(slot, length))
    return after


def _load_encoder(load: _Load) -> LoadedModel:
    model, tokenizer = read_model(AutoModel, load.path), load_tokenizer(load.path)
    limits = [*_limits(model.config), *position_limit(model), tokenizer.max_length, *read_max_length(load.path)]
    context_size = _context_size(load.options, limits)
    memory = _weight_bytes(model)
    pack_linears(model)
    embedder = Embedder(model=model, tokenizer=tokenizer, pooling=read_pooling(load.path), context_size=context_size)
    return LoadedModel(load.report(context_size=context_size, memory=memory, kernels="transformers"), None, embedder)


def _limits(config: PreTrainedConfig) -> list[int]:
    """How many tokens the architecture can look at. Raises ModelLoadFailed for other attention than full or sliding."""
    text = config.get_text_config()
    limits = [getattr(text, "max_position_embeddings", None)]
    layers = set(getattr(text, "layer_types", None) or ["sliding_attention"])
    if layers - {"full_attention", "sliding_attention"}:
        raise ModelLoadFailed(f"Layers of type {', '.join(sorted(layers))} are not supported.")
    # Up to the window's size, sliding attention is full attention.
    if "sliding_attention" in layers:
        limits.append(getattr(text, "sliding_window", None))
    if "local" in getattr(text, "attention_layers", ()):  # GPT-Neo's name for it
        limits.append(text.window_size)
    return [limit for limit in limits if limit]


def _context_size(options: LoadOptions, limits: list[int]) -> int:
    limit = min(limits, default=options.context_size or DEFAULT_CONTEXT)
    if options.context_size and options.context_size > limit:
        raise InvalidRequest(
            f"`context_size` is {options.context_size}, but this model's limit is {limit}.",
            parameter="context_size",
            limit=limit,
        )
    return options.context_size or min(limit, DEFAULT_CONTEXT)


def _eos_ids(path: Path, config: PreTrainedConfig, tokenizer: Tokenizer) -> frozenset[int]:
    """Every token that any of the folder's files calls an end."""
    file = path / "generation_config.json"
    generation = read_json(file).get("eos_token_id") if file.exists() else None
    ids: set[int] = set()
    for eos in (generation, config.get_text_config().eos_token_id, tokenizer.eos_id):
        ids.update(eos if isinstance(eos, list) else [] if eos is None else [eos])
    return frozenset(ids)


def _weight_bytes(model: PreTrainedModel) -> int:
    """Bytes of weights and buffers, shared ones once."""
    tensors = [*model.parameters(), *model.buffers()]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
    return sum(storages.values())
