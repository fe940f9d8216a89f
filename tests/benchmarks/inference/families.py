"""Every family of models beside transformers' `generate`: the same random weights and prompts, in float32, in one run.

A name says which code computes the family here: an own decoder, or transformers' code over the engine's cache.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedConfig
from transformers.utils import logging as transformers_logging

from inference.engine.errors import EngineError
from inference.engine.models.kernel_build import FOLDER_VARIABLE, build_kernels
from inference.engine.processors import physical_cores
from tests.benchmarks._table import Comparison, arguments, publish
from tests.benchmarks.inference._engines import BenchmarkEngine, TransformersBaseline, prompts, save_random
from tests.benchmarks.inference.engine import CHECKOUT, PROMPT, VOCABULARY, alternately
from tests.inference.engine.family_configs import other_families, own_families

TOKENS = 32  # generated, so that sequences are longer than the window
WINDOW = 48
SIZES: dict[str, Any] = {
    "vocab_size": 8192,
    "hidden_size": 512,
    "intermediate_size": 1408,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 2048,
}
QUICK_SIZES = SIZES | {"vocab_size": 1024, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2}
COUNTS = (1, 16)


def speed(name: str, folder: Path, rounds: int) -> Iterator[Comparison]:
    """Yield the tokens per second at each number of requests. Print the reason if the family is refused."""
    try:
        engine = BenchmarkEngine(folder, max_sequences=max(COUNTS), context_size=PROMPT + TOKENS, dtype="float32")
    except EngineError as error:
        print(f"{name}: {error.message}", flush=True)
        return
    baseline = TransformersBaseline(folder)
    code = "transformers" if engine.report.kernels == "transformers" else f"own decoder, {engine.report.kernels}"
    for count in COUNTS:
        prompt_ids = prompts(count, PROMPT, VOCABULARY)
        engine.run(prompt_ids, 2)
        measured, generated = alternately(
            rounds,
            lambda prompt_ids=prompt_ids: engine.run(prompt_ids, TOKENS).tokens_per_second,
            lambda prompt_ids=prompt_ids: baseline.run(prompt_ids, TOKENS),
        )
        yield Comparison(f"{name}, {code}, {count}", measured, generated, "tokens/s")
    engine.close()


def main() -> None:
    given = arguments(__doc__ or "")
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    torch.set_num_threads(physical_cores())
    os.environ.setdefault(FOLDER_VARIABLE, str(CHECKOUT / "var" / "compiled"))
    build_kernels()
    rounds, sizes = (1, QUICK_SIZES) if given.quick else (5, SIZES)
    results: list[Comparison] = []
    configurations: dict[str, PreTrainedConfig] = own_families(sizes, window=WINDOW)
    configurations |= other_families(sizes, window=WINDOW)
    for name, config in configurations.items():
        with tempfile.TemporaryDirectory() as folder:
            results += speed(name, save_random(Path(folder), config), rounds)
            print(f"{name}: measured", flush=True)
    publish(results, given.json)


if __name__ == "__main__":
    main()
