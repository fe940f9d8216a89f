"""The decoders of Llama and families like it: choice of kernels, devices and threads, verified against transformers."""

import ctypes
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

import msgspec
import torch
from transformers import PreTrainedConfig

from inference.engine.errors import InvalidRequest, ModelLoadFailed
from inference.engine.formats import LoadCache
from inference.engine.model_status import LoadOptions
from inference.engine.models.checkpoint import Checkpoint
from inference.engine.models.cuda_graphs import GraphRecorder
from inference.engine.models.interface import Decoder, TokenSpan
from inference.engine.models.kernel_build import compiled_kernels
from inference.engine.models.layers.interface import CPU, MakeStack, Placement
from inference.engine.models.layers.linear import linear_maker
from inference.engine.models.llama_decoder import LlamaDecoder
from inference.engine.models.native_decoder import NativeDecoder
from inference.engine.models.reference import first_layer, verify
from inference.engine.processors import physical_cores, thread_counts

logger = logging.getLogger(__name__)

DTYPES = {"auto": torch.float32, "float32": torch.float32, "bfloat16": torch.bfloat16}
GPU = torch.device("cuda", 0)
GPU_DTYPES = DTYPES | {"auto": torch.bfloat16}
MIN_CAPABILITY = (8, 0)  # of a GPU, for bfloat16
# Maximum differences from transformers' float32 logits, as shares of the largest logit.
EXACT_TOLERANCE = 1e-3
ROUNDED_TOLERANCE = 0.3
MEASURED_ROWS = (1, 16)
MEASURED_CONTEXT = 64
MAX_MEASUREMENT_COUNT = 9
MAX_MEASURED_SECONDS = 0.25  # per number of rows

FamilyDecoder = LlamaDecoder | NativeDecoder


@dataclass(frozen=True)
class Kernels:
    """The compiled library, or None for torch's operations, with the number of threads.

    multiplies_pairs: see `NativeDecoder`.
    """

    compiled: ctypes.CDLL | None
    threads: int
    multiplies_pairs: bool = False


def open_family_decoder(
    config: PreTrainedConfig, checkpoint: Checkpoint, options: LoadOptions, context_size: int, cache: LoadCache
) -> FamilyDecoder:
    """Return the fastest decoder on this machine, verified against transformers. Raise ModelLoadFailed.

    A library that is built later is used only if the model is opened again.
    """
    sample, choices = checkpoint.truncated(), _choices(compiled_kernels(), options)
    if layers_on_gpu(checkpoint, options):
        kernels = Kernels(None, physical_cores())
    else:  # a compiled library that is verified was the fastest, too; another product would round otherwise
        verified = [choice for choice in choices if choice.compiled and cache.find(_verified(choice, options))]
        kernels = fastest_kernels(sample, options, verified[:1] or choices)
    if not cache.find(_verified(kernels, options)):
        _verify_sample(config, sample, options, kernels)
        with cache.new(_verified(kernels, options)):
            pass
    decoder = make_decoder(checkpoint, options, kernels, slots=options.max_sequences, context_size=context_size)
    torch.set_num_threads(kernels.threads)
    return decoder


def _choices(library: ctypes.CDLL | None, options: LoadOptions) -> list[Kernels]:
    """Return the kernels that this machine has for the options, with one thread."""
    kernels = [Kernels(None, 1)]
    if library:
        kernels.insert(0, Kernels(library, 1))
        is_bfloat16 = DTYPES[options.dtype] == torch.bfloat16 and options.quantization != "int8"
        if is_bfloat16 and library.multiplies_pairs():
            kernels.insert(0, Kernels(library, 1, multiplies_pairs=True))
    return kernels


def _verified(kernels: Kernels, options: LoadOptions) -> str:
    """Return the name of the cache's entry for kernels that were the fastest and passed verification."""
    library = Path(kernels.compiled._name).stem if kernels.compiled else "torch"
    library += "-pairs" if kernels.multiplies_pairs else ""
    return f"verified-{library}-{options.dtype}-{options.quantization}-{options.cache_dtype}-{options.gpu_layers}"


def _verify_sample(config: PreTrainedConfig, sample: Checkpoint, options: LoadOptions, kernels: Kernels) -> None:
    """Verify one layer against transformers. Raise ModelLoadFailed."""
    reference = first_layer(config, sample)
    exact = msgspec.structs.replace(options, dtype="float32", quantization="none", gpu_layers=0)
    dtypes = GPU_DTYPES if layers_on_gpu(sample, options) else DTYPES
    is_quantized = options.quantization != "none" or (options.dtype == "auto" and sample.is_quantized)
    rounded = is_quantized or dtypes[options.dtype] != torch.float32
    try:
        for tested, tolerance in (
            (exact, EXACT_TOLERANCE),
            (options, ROUNDED_TOLERANCE if rounded else EXACT_TOLERANCE),
        ):
            decoder = make_decoder(sample, tested, kernels, slots=2, context_size=8)
            verify(decoder, reference, slots=2, tolerance=tolerance)
    except ValueError as error:
        raise ModelLoadFailed(f"The model does not run correctly on this engine: {error}.") from error


def layers_on_gpu(checkpoint: Checkpoint, options: LoadOptions) -> int:
    """Return the number of decoder layers on the GPU: 0 without a GPU, and at most all of them."""
    return min(options.gpu_layers, checkpoint.architecture.layers) if torch.cuda.is_available() else 0


def make_decoder(
    checkpoint: Checkpoint, options: LoadOptions, kernels: Kernels, *, slots: int, context_size: int
) -> FamilyDecoder:
    """Return a decoder with these kernels."""
    if kernels.compiled is None:
        on_gpu = layers_on_gpu(checkpoint, options)
        return LlamaDecoder(
            checkpoint,
            placements(checkpoint.architecture.layers, on_gpu, options),
            slots=slots,
            context_size=context_size,
            threads=0 if on_gpu else kernels.threads,
            record=GraphRecorder() if on_gpu else None,
            make_stack=_fused_stack(checkpoint, options, slots=slots, context_size=context_size) if on_gpu else None,
        )
    keeps_blocks = options.quantization == "int4" or (options.dtype == "auto" and options.quantization == "none")
    is_rounded = options.quantization == "int8" or (keeps_blocks and checkpoint.is_quantized)
    return NativeDecoder(
        kernels.compiled,
        checkpoint,
        dtype=torch.int8 if options.quantization == "int8" else DTYPES[options.dtype],
        threads=kernels.threads,
        slots=slots,
        context_size=context_size,
        keeps_blocks=keeps_blocks,
        cache_dtype=torch.float16 if is_rounded and options.cache_dtype == "auto" else torch.float32,
        multiplies_pairs=kernels.multiplies_pairs,
    )


def placements(layers: int, gpu_layers: int, options: LoadOptions) -> list[Placement]:
    """Return the placement of each layer: the last `gpu_layers`, and the head, on the GPU, the others on the CPU.

    On the GPU the default type is bfloat16.
    """
    int8 = options.quantization != "none"  # torch has no products of four bits
    on_cpu = [Placement(CPU, linear_maker(DTYPES[options.dtype], CPU, int8=int8))] * (layers - gpu_layers)
    if not gpu_layers:
        return on_cpu
    return on_cpu + [Placement(GPU, linear_maker(GPU_DTYPES[options.dtype], GPU))] * gpu_layers


def _fused_stack(checkpoint: Checkpoint, options: LoadOptions, *, slots: int, context_size: int) -> MakeStack | None:
    """Return what makes the layers on the GPU of Triton's kernels, or None where torch's operations compute them."""
    if options.quantization == "int4":
        raise InvalidRequest(
            "`quantization` int4 is for models on the CPU: use int8, or leave out `gpu_layers`.",
            parameter="quantization",
        )
    is_int8 = options.quantization == "int8"
    is_narrow = is_int8 or GPU_DTYPES[options.dtype] == torch.bfloat16
    if not checkpoint.architecture.is_plain:
        if is_int8:
            raise InvalidRequest(
                f"`quantization` int8 on a GPU is not for {checkpoint.architecture.family.name} models: leave out "
                "`quantization` or `gpu_layers`.",
                parameter="quantization",
            )
        return None
    if not is_narrow or options.cache_dtype != "auto" or not has_triton():
        if is_int8:
            raise InvalidRequest(
                "`quantization` int8 on a GPU needs Triton, with a C compiler and Python's headers, and `cache_dtype` "
                "auto: leave out `quantization` or `gpu_layers`.",
                parameter="quantization",
            )
        return None
    from inference.engine.models.gpu.stack import FusedStack

    return partial(FusedStack, device=GPU, slots=slots, context_size=context_size, is_int8=is_int8)


@cache
def has_triton() -> bool:
    """Return whether Triton can compile kernels for the GPU: it needs a C compiler and Python's headers, too."""
    if find_spec("triton") is None or torch.cuda.get_device_capability() < MIN_CAPABILITY:
        return False
    try:
        from inference.engine.models.gpu.kernels import probe

        probe(GPU)
    except Exception:  # whatever compilers and drivers raise
        logger.exception("engine.triton_not_used")
        return False
    return True


def fastest_kernels(sample: Checkpoint, options: LoadOptions, choices: Sequence[Kernels]) -> Kernels:
    """Return the fastest of these kernels, with any number of threads, by timing one layer with 1 and 16 rows."""
    before = torch.get_num_threads()
    candidates = [replace(choice, threads=threads) for choice in choices for threads in thread_counts()]
    times = {kernels: _mean_seconds(sample, options, kernels) for kernels in candidates}
    torch.set_num_threads(before)
    return min(times, key=times.__getitem__)


def _mean_seconds(sample: Checkpoint, options: LoadOptions, kernels: Kernels) -> float:
    """Return the geometric mean of the shortest times. Other work on the machine only lengthens a time."""
    torch.set_num_threads(kernels.threads)
    decoder = make_decoder(sample, options, kernels, slots=max(MEASURED_ROWS), context_size=MEASURED_CONTEXT)
    shortest = [_min_seconds(decoder, rows) for rows in MEASURED_ROWS]
    return math.prod(shortest) ** (1 / len(shortest))


def _min_seconds(decoder: Decoder, rows: int) -> float:
    spans = [TokenSpan(slot, MEASURED_CONTEXT - 1, [0]) for slot in range(rows)]
    times: list[float] = []
    while len(times) < MAX_MEASUREMENT_COUNT and sum(times) < MAX_MEASURED_SECONDS:
        started_at = time.perf_counter()
        decoder.run(spans)
        times.append(time.perf_counter() - started_at)
    return min(times)
