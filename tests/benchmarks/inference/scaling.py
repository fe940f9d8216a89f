"""The engine on 1, 2, 4, ... of this machine's cores: tokens per second, prefill, and the floor of a step at each.

Each number of cores has a process of its own, bound to them. The baseline is one core; of "floor over step" it is the
step, and the floor is the time to read the weights once at the bandwidth of those cores.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import torch

from inference.engine.models.kernel_build import FOLDER_VARIABLE, build_kernels
from inference.engine.processors import thread_counts
from tests.benchmarks._table import Comparison, arguments, publish
from tests.benchmarks.inference._engines import BenchmarkEngine, bandwidth, configurations, prompts, save_random
from tests.benchmarks.inference.engine import CHECKOUT, PROMPT, SHORT, VOCABULARY, alternately

LONG_PROMPT = 1000
BITS = {"none": "float32", "int8": "int8"}


@dataclass(frozen=True)
class Scale:
    """Figures of one number of cores: tokens per second by the number of requests, and milliseconds."""

    threads: int
    speeds: dict[int, float]
    prefill_speed: float
    step_ms: float
    floor_ms: float


def measure(folder: Path, quantization: str, counts: tuple[int, ...], rounds: int) -> Scale:
    """Measure the model in this process, on the cores to which it is bound."""
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    build_kernels()
    engine = BenchmarkEngine(folder, quantization=quantization, max_sequences=max(counts))
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    weights = size / 4 if quantization == "int8" else size

    def speed(count: int) -> Callable[[], float]:
        prompt_ids = prompts(count, PROMPT, VOCABULARY)
        return lambda: engine.run(prompt_ids, SHORT).tokens_per_second

    works = [
        *map(speed, counts),
        lambda: LONG_PROMPT / engine.run(prompts(1, LONG_PROMPT, VOCABULARY), 1).first_token_ms * 1000,
        lambda: engine.run(prompts(1, PROMPT, VOCABULARY), SHORT).step_ms,
        lambda: weights / bandwidth() * 1000,
    ]
    engine.run(prompts(max(counts), PROMPT, VOCABULARY), SHORT)
    *speeds, prefill, step, floor = alternately(rounds, *works)
    engine.close()
    return Scale(torch.get_num_threads(), dict(zip(counts, speeds, strict=True)), prefill, step, floor)


def bound_to(cores: list[int], *work: object) -> Scale:
    """Return what `measure` does in a process that has these cores alone."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
            return alone.submit(measure, *work).result()  # type: ignore[arg-type]
    finally:
        os.sched_setaffinity(0, own)


def compare(name: str, folder: Path, quantization: str, counts: tuple[int, ...], rounds: int) -> Iterator[Comparison]:
    cores = sorted(os.sched_getaffinity(0))
    name = f"{name}, {BITS[quantization]}"
    first: Scale | None = None
    for number in thread_counts():
        scale = bound_to(cores[:number], folder, quantization, counts, rounds)
        first = first or scale
        print(f"{name}, {number} cores: {scale.threads} threads chosen", flush=True)
        for count, speed in scale.speeds.items():
            yield Comparison(f"{name}, {number} cores, {count} requests", speed, first.speeds[count], "tokens/s")
        yield Comparison(f"{name}, {number} cores, prefill", scale.prefill_speed, first.prefill_speed, "tokens/s")
        yield Comparison(f"{name}, {number} cores, floor over step", scale.floor_ms, scale.step_ms, "ms")


def main() -> None:
    given = arguments(__doc__ or "")
    os.environ.setdefault(FOLDER_VARIABLE, str(CHECKOUT / "var" / "compiled"))
    rounds, counts, names = (1, (1, 16), ("tiny",)) if given.quick else (3, (1, 4, 16), ("small", "medium"))
    results: list[Comparison] = []
    with tempfile.TemporaryDirectory() as root:
        for name in names:
            folder = save_random(Path(root) / name, configurations()[name])
            for quantization in BITS:
                results += compare(name, folder, quantization, counts, rounds)
    publish(results, given.json)


if __name__ == "__main__":
    main()
