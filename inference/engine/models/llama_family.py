"""Our own decoders for the Llama family: which one, on which device, with how many threads."""

import ctypes
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import torch
from transformers import PreTrainedConfig

from inference.engine.errors import ModelLoadFailed
from inference.engine.model_status import LoadOptions
from inference.engine.models.checkpoint import Checkpoint
from inference.engine.models.cuda_graphs import GraphRecorder
from inference.engine.models.interface import Decoder, Span
from inference.engine.models.kernel_build import compiled_kernels
from inference.engine.models.linear import linear_maker
from inference.engine.models.llama_decoder import CPU, LlamaDecoder, Placement
from inference.engine.models.native_decoder import NativeDecoder
from inference.engine.models.reference import first_layer, verify

DTYPES = {"auto": torch.float32, "float32": torch.float32, "bfloat16": torch.bfloat16}
GPU_DTYPES = DTYPES | {"auto": torch.bfloat16}
# Shares of the largest logit by which a look at the loaded model may differ from float32.
EXACT = 1e-3
ROUNDED = 0.3
THREADS = (1, 2)  # more than two fight the rest of a small machine for its cores
MEASURED_ROWS = (1, 16)
MEASURED_CONTEXT = 64
TRIES = 9
MEASURED_SECONDS = 0.25  # for each number of rows, at most

OwnDecoder = LlamaDecoder | NativeDecoder


@dataclass(frozen=True)
class Kernels:
    """The compiled library, or None for torch's own operations; and how many threads run them."""

    compiled: ctypes.CDLL | None
    threads: int


def open_own_decoder(
    config: PreTrainedConfig, checkpoint: Checkpoint, options: LoadOptions, context_size: int
) -> OwnDecoder:
    """The fastest on this machine, seen to give what transformers gives. Raises ModelLoadFailed.

    The kernels are chosen here. A library that is built later is a reason to open it again.
    """
    sample = checkpoint.truncated()
    kernels = Kernels(None, max(THREADS)) if layers_on_gpu(checkpoint, options) else fastest(sample, options)
    reference = first_layer(config, sample)
    exact = msgspec.structs.replace(options, dtype="float32", quantization="none", gpu_layers=0)
    try:
        rounded = options.quantization == "int8" or options.dtype != "float32"
        for asked, tolerance in ((exact, EXACT), (options, ROUNDED if rounded else EXACT)):
            verify(make(sample, asked, kernels, slots=2, context_size=8), reference, slots=2, tolerance=tolerance)
    except ValueError as error:
        raise ModelLoadFailed(f"The model does not run on this engine as it should: {error}.") from error
    torch.set_num_threads(kernels.threads)
    return make(checkpoint, options, kernels, slots=options.max_sequences, context_size=context_size)


def layers_on_gpu(checkpoint: Checkpoint, options: LoadOptions) -> int:
    """How many decoder layers go there: none without a GPU, all where more are asked for than there are."""
    return min(options.gpu_layers, checkpoint.architecture.layers) if torch.cuda.is_available() else 0


def make(
    checkpoint: Checkpoint, options: LoadOptions, kernels: Kernels, *, slots: int, context_size: int
) -> OwnDecoder:
    if kernels.compiled is None:
        on_gpu = layers_on_gpu(checkpoint, options)
        places = placements(checkpoint.architecture.layers, on_gpu, options)
        record = GraphRecorder() if on_gpu else None
        return LlamaDecoder(checkpoint, places, slots=slots, context_size=context_size, record=record)
    return NativeDecoder(
        kernels.compiled,
        checkpoint,
        dtype=torch.int8 if options.quantization == "int8" else DTYPES[options.dtype],
        threads=kernels.threads,
        slots=slots,
        context_size=context_size,
    )


def placements(layers: int, gpu_layers: int, options: LoadOptions) -> list[Placement]:
    """The last `gpu_layers`, with what follows them, on the GPU, in bfloat16 unless float32 is asked for; those before
    on the CPU as asked."""
    int8 = options.quantization == "int8"
    on_cpu = [Placement(CPU, linear_maker(DTYPES[options.dtype], CPU, int8=int8))] * (layers - gpu_layers)
    if not gpu_layers:
        return on_cpu
    gpu = torch.device("cuda", 0)
    return on_cpu + [Placement(gpu, linear_maker(GPU_DTYPES[options.dtype], gpu))] * gpu_layers


def fastest(sample: Checkpoint, options: LoadOptions) -> Kernels:
    """Measures one layer: a token of one request, and one of each of 16."""
    before = torch.get_num_threads()
    times = {kernels: _seconds(sample, options, kernels) for kernels in _candidates()}
    torch.set_num_threads(before)
    return min(times, key=times.__getitem__)


def _candidates() -> Iterator[Kernels]:
    compiled = compiled_kernels()
    for library in [compiled, None] if compiled else [None]:
        for threads in THREADS:
            if threads <= (os.cpu_count() or 1):
                yield Kernels(library, threads)


def _seconds(sample: Checkpoint, options: LoadOptions, kernels: Kernels) -> float:
    """The geometric mean of the shortest times: what else runs on the machine only ever adds to a time."""
    torch.set_num_threads(kernels.threads)
    decoder = make(sample, options, kernels, slots=max(MEASURED_ROWS), context_size=MEASURED_CONTEXT)
    shortest = [_shortest(decoder, rows) for rows in MEASURED_ROWS]
    return math.prod(shortest) ** (1 / len(shortest))


def _shortest(decoder: Decoder, rows: int) -> float:
    spans = [Span(slot, MEASURED_CONTEXT - 1, [0]) for slot in range(rows)]
    times: list[float] = []
    while len(times) < TRIES and sum(times) < MEASURED_SECONDS:
        began = time.perf_counter()
        decoder.run(spans)
        times.append(time.perf_counter() - began)
    return min(times)
