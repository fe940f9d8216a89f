"""The engine beside transformers (static and continuous batching) and llama.cpp: same weights, same prompts, one run.

The engines take turns, so that a disturbance of the machine affects all; the figures are medians. Where the unit says
"floor", the baseline is the time to read the weights once at the bandwidth that was measured in the same run.
"""

import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType

import psutil
import torch
from transformers.utils import logging as transformers_logging

from inference.builtin import DESCRIBER
from inference.engine.models.kernel_build import FOLDER_VARIABLE, build_kernels
from tests.benchmarks._table import Comparison, arguments, publish
from tests.benchmarks.inference._engines import (
    CONTEXT,
    BenchmarkEngine,
    Timing,
    TransformersBaseline,
    bandwidth,
    configurations,
    prompts,
    save_random,
)
from tests.benchmarks.inference._llama_cpp import INSTALLATION, LlamaCpp, llama_cpp
from tests.inference.engine.gguf_files import save_gguf

CHECKOUT = Path(__file__).resolve().parents[3]
PROMPT = 32
SHORT, LONG = 32, 128  # generated tokens; the long ones for models whose step takes less than a millisecond
QUICK_MODELS = ("built-in", "tiny")
VOCABULARY = 100  # of the tokenizer


def alternately(rounds: int, *works: Callable[[], float]) -> list[float]:
    """Return the median of each, measured in turns."""
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for work, values in zip(works, taken, strict=True):
            values.append(work())
    return [statistics.median(values) for values in taken]


def answer_length(name: str) -> int:
    return LONG if name in QUICK_MODELS else SHORT


def speed(name: str, folder: Path, counts: tuple[int, ...], rounds: int) -> Iterator[Comparison]:
    """Yield the tokens per second in float32 and int8 beside each of the baselines."""
    tokens = answer_length(name)
    baseline = TransformersBaseline(folder)
    engines = {"float32": BenchmarkEngine(folder), "int8": BenchmarkEngine(folder, quantization="int8")}
    last: dict[str, Timing] = {}
    for count in counts:
        prompt_ids = prompts(count, PROMPT, VOCABULARY)

        def speed_of(kind: str, prompt_ids: list[tuple[int, ...]] = prompt_ids) -> float:
            last[kind] = engines[kind].run(prompt_ids, tokens)
            return last[kind].tokens_per_second

        def static(prompt_ids: list[tuple[int, ...]] = prompt_ids) -> float:
            return baseline.run(prompt_ids, tokens)

        wide, narrow, plain = alternately(rounds, lambda: speed_of("float32"), lambda: speed_of("int8"), static)
        yield Comparison(f"{name}, {count}, over generate", wide, plain, "tokens/s")
        yield Comparison(f"{name}, {count}, int8, over generate", narrow, plain, "tokens/s")
        for kind, timing in last.items():
            print(
                f"{name}, {count}, {kind}: {timing.step_ms:.2f} ms a step, first token {timing.first_token_ms:.1f} ms"
            )
        if count == 16:
            continuous = baseline.run_continuously(prompt_ids, SHORT)
            yield Comparison(f"{name}, {count}, over continuous batching", wide, continuous, "tokens/s")
    for engine in engines.values():
        engine.close()


def over_llama_cpp(
    library: ModuleType, name: str, folder: Path, counts: tuple[int, ...], rounds: int
) -> Iterator[Comparison]:
    """Yield the tokens per second beside llama.cpp's, in float32 and in 8 bits."""
    tokens = answer_length(name)
    for quantization, gguf_type in (("none", "F32"), ("int8", "Q8_0")):
        engine = BenchmarkEngine(folder, quantization=quantization)
        with tempfile.TemporaryDirectory() as scratch:
            shape = {"sequences": max(counts), "length": PROMPT + tokens}
            file = save_gguf(folder, Path(scratch) / f"{gguf_type}.gguf", gguf_type)
            baseline = LlamaCpp(library, file, **shape)
        for count in counts:
            prompt_ids = prompts(count, PROMPT, VOCABULARY)
            measured, baseline_speed = alternately(
                rounds,
                lambda prompt_ids=prompt_ids, engine=engine: engine.run(prompt_ids, tokens).tokens_per_second,
                lambda prompt_ids=prompt_ids, baseline=baseline: baseline.run(prompt_ids, tokens),
            )
            yield Comparison(f"{name}, {count}, over llama.cpp, {gguf_type}", measured, baseline_speed, "tokens/s")
        engine.close()
        baseline.close()


def floors(name: str, folder: Path, rounds: int) -> Iterator[Comparison]:
    """Yield the minimum time of a step beside the measured one, for a single sequence."""
    weights = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    prompt_ids = prompts(1, PROMPT, VOCABULARY)
    for kind, share in (("none", 1.0), ("int8", 0.25)):
        engine = BenchmarkEngine(folder, quantization=kind)
        step, floor = alternately(
            rounds,
            lambda engine=engine: engine.run(prompt_ids, SHORT).step_ms,
            lambda share=share: weights * share / bandwidth() * 1000,
        )
        yield Comparison(f"{name}, 1, {kind}, floor over step", floor, step, "ms, floor and step")
        engine.close()


def contexts(name: str, folder: Path, rounds: int) -> Iterator[Comparison]:
    """Yield the time to the first token of a long prompt, with and without baseline_speed prefix in the cache."""
    engine = BenchmarkEngine(folder, max_sequences=2, context_size=CONTEXT)
    (short,), (thousand,), (long,) = (prompts(1, length, VOCABULARY) for length in (100, 1000, 4000))
    engine.run([thousand], 1, fresh=False)
    cached, cold = alternately(
        rounds,
        lambda: engine.run([thousand], 1, fresh=False).first_token_ms,
        lambda: engine.run([thousand], 1).first_token_ms,
    )
    yield Comparison(f"{name}, first token, 1,000 cached over cold", cached, cold, "ms")
    at_long, at_short = alternately(
        rounds, lambda: engine.run([long], 16).step_ms, lambda: engine.run([short], 16).step_ms
    )
    yield Comparison(f"{name}, step at 4,000 tokens over at 100", at_long, at_short, "ms")
    engine.close()


def memory(name: str, folder: Path) -> Comparison:
    """Yield the memory that a model adds to a process with torch, beside baseline_speed weights and cache."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        grown, counted, words = alone.submit(_grown_by, folder).result()
    print(f"{name}: {words}")
    return Comparison(f"{name}, memory over weights and cache", grown / 1e6, counted / 1e6, "MB")


def _grown_by(folder: Path) -> tuple[int, int, str]:
    """Bytes by which this process grows, those of weights and cache, and how the model was loaded."""
    build_kernels()
    torch.ones(512, 512) @ torch.ones(512, 512)  # what the libraries take once is not the model's
    process = psutil.Process()
    before = process.memory_info().rss
    engine = BenchmarkEngine(folder, max_sequences=16, context_size=2048)
    engine.run(prompts(16, PROMPT, VOCABULARY), SHORT)
    grown = process.memory_info().rss - before
    report = engine.report
    engine.close()
    return grown, report.memory_usage_bytes, f"loaded in {report.load_time_ms} ms, kernels: {report.kernels}"


def main() -> None:
    given = arguments(__doc__ or "")
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    torch.set_num_threads(min(2, os.cpu_count() or 1))
    os.environ.setdefault(FOLDER_VARIABLE, str(CHECKOUT / "var" / "compiled"))
    build_kernels()
    rounds, counts = (1, (1, 16)) if given.quick else (3, (1, 4, 16, 32))
    results: list[Comparison] = []
    library = llama_cpp()
    if library is None:
        print(INSTALLATION)
    with tempfile.TemporaryDirectory() as root:
        sizes = {"tiny": configurations()["tiny"]} if given.quick else configurations()
        folders = {name: save_random(Path(root) / name, config) for name, config in sizes.items()}
        results += [memory(name, folder) for name, folder in folders.items()]
        for name, folder in (folders if given.quick else {"built-in": DESCRIBER} | folders).items():
            results += speed(name, folder, counts, rounds)
            results += floors(name, folder, rounds)
            if library:
                results += over_llama_cpp(library, name, folder, counts, rounds)
        longest = "tiny" if given.quick else "small"
        results += contexts(longest, folders[longest], rounds)
    publish(results, given.json)


if __name__ == "__main__":
    main()
