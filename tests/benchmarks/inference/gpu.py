"""The engine on a CUDA GPU beside transformers' `generate` in bfloat16: same weights, same prompts, one run.

Models are Llama-shaped, with random weights. Where the unit says "floor", the baseline is the time to read the weights
once at the bandwidth that was measured in the same run.
"""

import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaConfig
from transformers.utils import logging as transformers_logging

from tests.benchmarks._table import Comparison, arguments, publish
from tests.benchmarks.inference._engines import BenchmarkEngine, prompts
from tests.inference.engine.tiny_models import byte_tokenizer

VOCABULARY = 128_256
PROMPT, TOKENS, LONG_PROMPT = 32, 48, 2000
COUNTS = (1, 16, 64)
CONTEXT = 2304
MIN_FREE_PER_BYTE = 1.6  # of the weights, for the cache and what a step takes
# Layers, hidden size, intermediate size, heads, size of a head; key heads are 8 everywhere.
SHAPES = {
    "1B": (16, 2048, 8192, 32, 64),
    "3B": (28, 3072, 8192, 24, 128),
    "8B": (32, 4096, 14336, 32, 128),
}


def configuration(name: str) -> LlamaConfig:
    layers, hidden, intermediate, heads, head_dim = SHAPES[name]
    return LlamaConfig(
        vocab_size=VOCABULARY,
        num_hidden_layers=layers,
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_attention_heads=heads,
        num_key_value_heads=8,
        head_dim=head_dim,
        max_position_embeddings=8192,
        tie_word_embeddings=name != "8B",
    )


def seconds(work: Callable[[], object], rounds: int) -> float:
    """Return the median time of work on the GPU."""
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def bandwidth() -> float:
    """Return the bytes per second at which the GPU reads 4 GiB, or half of what is free."""
    free, _ = torch.cuda.mem_get_info()
    data = torch.empty(min(2**30, free // 8), device="cuda").normal_()
    return data.nbytes / seconds(data.sum, 5)


def saved(folder: Path, config: LlamaConfig) -> Any:
    """Return transformers' model with random weights on the GPU, and save it."""
    torch.manual_seed(1)
    with torch.device("cuda"):
        model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return model


@torch.inference_mode()
def by_transformers(model: Any, rounds: int) -> dict[str, float]:
    """Return the tokens per second of `generate` by number of requests, and of a long prompt."""

    def generate(ids: Tensor) -> None:
        mask = torch.ones_like(ids)
        options = {"max_new_tokens": TOKENS, "min_new_tokens": TOKENS, "pad_token_id": 0, "do_sample": False}
        model.generate(ids, attention_mask=mask, **options)

    speeds = {}
    for count in COUNTS:
        ids = torch.tensor(prompts(count, PROMPT, 100), device="cuda")
        speeds[str(count)] = count * TOKENS / seconds(lambda ids=ids: generate(ids), rounds)
    long = torch.tensor(prompts(1, LONG_PROMPT, 100), device="cuda")
    model(long, logits_to_keep=1)
    speeds["prompt"] = LONG_PROMPT / seconds(lambda: model(long, logits_to_keep=1), rounds)
    return speeds


def comparisons(name: str, folder: Path, rounds: int) -> Iterator[Comparison]:
    model = saved(folder, configuration(name))
    baseline = by_transformers(model, rounds)
    table = model.get_input_embeddings().weight.nbytes if name == "8B" else 0  # a step reads one row of it
    del model
    gc.collect()
    torch.cuda.empty_cache()
    read = sum(file.stat().st_size for file in folder.glob("*.safetensors")) - table
    floor = read / bandwidth() * 1000
    for kind, share in (("none", 1.0), ("int8", 0.5)):
        label = f"{name}, {'bfloat16' if kind == 'none' else kind}"
        options = {"max_sequences": max(COUNTS), "context_size": CONTEXT, "gpu_layers": 999}
        engine = BenchmarkEngine(folder, quantization=kind, **options)
        report = engine.report
        print(
            f"{label}: loaded in {report.load_time_ms / 1000:.1f} s, kernels {report.kernels}, on the GPU "
            f"{report.gpu_memory_bytes / 1e9:.1f} GB, of which weights {report.weight_bytes / 1e9:.1f}",
            flush=True,
        )
        for count in COUNTS:
            prompt_ids = prompts(count, PROMPT, 100)
            timings = [engine.run(prompt_ids, TOKENS) for _ in range(rounds + 1)][1:]
            speed = statistics.median(timing.tokens_per_second for timing in timings)
            step = statistics.median(timing.step_ms for timing in timings)
            if count == 1:
                yield Comparison(f"{label}, 1, floor over step", floor * share, step, "ms, floor and step")
            yield Comparison(f"{label}, {count}, over generate", speed, baseline[str(count)], "tokens/s")
        long = prompts(1, LONG_PROMPT, 100)
        first = statistics.median(engine.run(long, 1).first_token_ms for _ in range(rounds))
        yield Comparison(f"{label}, prompt of 2,000", LONG_PROMPT / first * 1000, baseline["prompt"], "tokens/s")
        engine.close()
        del engine
        gc.collect()
        torch.cuda.empty_cache()


def main() -> None:
    given = arguments(__doc__ or "")
    if not torch.cuda.is_available():
        raise SystemExit("There is no CUDA GPU that torch can use on this machine, so nothing is measured.")
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    print(f"{torch.cuda.get_device_name()}, reads {bandwidth() / 1e9:,.0f} GB/s, torch {torch.__version__}", flush=True)
    results: list[Comparison] = []
    for name in ("1B",) if given.quick else SHAPES:
        with torch.device("meta"):
            parameters = sum(one.numel() for one in AutoModelForCausalLM.from_config(configuration(name)).parameters())
        if 2 * parameters * MIN_FREE_PER_BYTE > torch.cuda.mem_get_info()[0]:
            print(f"{name} is left out: it does not fit into the GPU's memory.")
            continue
        with tempfile.TemporaryDirectory() as folder:
            results += comparisons(name, Path(folder), 1 if given.quick else 3)
    publish(results, given.json)


if __name__ == "__main__":
    main()
