"""A step of one layer by the type of its weights: milliseconds on one thread, beside float32. Below 1 is faster.

The layers are those of the models of `bench engine`. Of all measurements in turns, the shortest counts: other work on
the machine only lengthens one.
"""

import ctypes
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from transformers import AutoConfig

from inference.engine.model_status import LoadOptions
from inference.engine.models.architecture import read_architecture
from inference.engine.models.checkpoint import Checkpoint, FolderTensors
from inference.engine.models.interface import Decoder, TokenSpan
from inference.engine.models.kernel_build import FOLDER_VARIABLE, build_kernels, compiled_kernels
from inference.engine.models.llama_family import Kernels, make_decoder
from tests.benchmarks._table import Comparison, arguments, publish
from tests.benchmarks.inference._engines import configurations, save_random
from tests.benchmarks.inference.engine import CHECKOUT

COUNTS = (1, 4, 16, 64)
POSITION = 63


def decoders(library: ctypes.CDLL, checkpoint: Checkpoint) -> dict[str, Decoder]:
    """Return a decoder of the first layer in each type, float32 first."""
    bfloat16, one = LoadOptions(dtype="bfloat16"), Kernels(library, 1)
    kinds = {"float32": (LoadOptions(), one), "bfloat16, widened": (bfloat16, one)}
    if library.multiplies_pairs():
        kinds["bfloat16, in pairs"] = (bfloat16, Kernels(library, 1, multiplies_pairs=True))
    kinds["int8"] = (LoadOptions(quantization="int8"), one)
    sample = checkpoint.truncated()
    return {
        kind: make_decoder(sample, options, kernels, slots=max(COUNTS), context_size=POSITION + 1)
        for kind, (options, kernels) in kinds.items()
    }


def milliseconds(decoder: Decoder, count: int) -> float:
    spans = [TokenSpan(slot, POSITION, [0]) for slot in range(count)]
    started_at = time.perf_counter()
    decoder.run(spans)
    return (time.perf_counter() - started_at) * 1000


def measure(name: str, library: ctypes.CDLL, folder: Path, rounds: int) -> Iterator[Comparison]:
    """Yield the time of each type and number of rows."""
    architecture = read_architecture(AutoConfig.from_pretrained(folder))
    assert architecture is not None
    made = decoders(library, Checkpoint(FolderTensors(folder), architecture))
    for count in COUNTS:
        shortest = dict.fromkeys(made, float("inf"))
        for _ in range(rounds):
            for kind, decoder in made.items():
                shortest[kind] = min(shortest[kind], milliseconds(decoder, count))
        for kind, time_taken in shortest.items():
            yield Comparison(f"{name}, {kind}, {count}", time_taken, shortest["float32"], "ms")


def main() -> None:
    given = arguments(__doc__ or "")
    torch.set_num_threads(1)
    os.environ.setdefault(FOLDER_VARIABLE, str(CHECKOUT / "var" / "compiled"))
    build_kernels()
    library = compiled_kernels()
    if library is None:
        raise SystemExit("There is no C++ compiler.")
    results: list[Comparison] = []
    for name, config in configurations().items():
        config.num_hidden_layers, config.vocab_size = 1, 512
        if getattr(config, "layer_types", None):
            config.layer_types = config.layer_types[:1]
        with tempfile.TemporaryDirectory() as folder:
            results += measure(name, library, save_random(Path(folder), config), 20 if given.quick else 60)
    publish(results, given.json)


if __name__ == "__main__":
    main()
