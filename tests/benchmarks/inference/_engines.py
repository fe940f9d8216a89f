"""Engines that generate from the same prompts with the same weights: Stoa's, and the two of transformers."""

import statistics
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from transformers import (
    AutoModelForCausalLM,
    GenerationConfig,
    LlamaConfig,
    PreTrainedConfig,
    Qwen2Config,
)

from inference.engine.host.loading import load_model
from inference.engine.model_status import LoadOptions, LoadReport
from inference.engine.outputs import GenerationOutput
from inference.engine.requests import GenerationRequest
from inference.engine.sampling import SamplingParams
from inference.engine.scheduling.engine import Engine
from tests.inference.engine.tiny_models import byte_tokenizer

SLOTS = 32
CONTEXT = 4352


@dataclass(frozen=True)
class Timing:
    """Timing of concurrent requests: total tokens per second, and the medians of the others in milliseconds."""

    tokens_per_second: float
    step_ms: float
    first_token_ms: float


def configurations() -> dict[str, PreTrainedConfig]:
    """Return model configurations with 3M, 125M and 0.5B parameters."""
    length = {"max_position_embeddings": 8192}
    return {
        "tiny": LlamaConfig(
            vocab_size=3072,
            hidden_size=256,
            intermediate_size=704,
            num_hidden_layers=4,
            num_attention_heads=8,
            num_key_value_heads=4,
            tie_word_embeddings=True,
            **length,
        ),
        "small": LlamaConfig(
            vocab_size=32000,
            hidden_size=768,
            intermediate_size=2304,
            num_hidden_layers=12,
            num_attention_heads=12,
            num_key_value_heads=4,
            **length,
        ),
        "medium": Qwen2Config(
            vocab_size=32000,
            hidden_size=896,
            intermediate_size=4864,
            num_hidden_layers=24,
            num_attention_heads=14,
            num_key_value_heads=2,
            tie_word_embeddings=True,
            **length,
        ),
    }


def save_random(folder: Path, config: PreTrainedConfig) -> Path:
    torch.manual_seed(1)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder


def prompts(count: int, length: int, vocabulary: int) -> list[tuple[int, ...]]:
    draw = Random(f"{count} {length}")
    return [tuple(draw.randrange(10, vocabulary) for _ in range(length)) for _ in range(count)]


class BenchmarkEngine:
    """The engine of one loaded model, in this process."""

    def __init__(self, folder: Path, **options: object) -> None:
        self._news = threading.Condition()
        self._times: dict[str, list[float]] = {}
        self._unfinished: set[str] = set()
        self._count = 0
        wanted = LoadOptions(**({"max_sequences": SLOTS} | options))
        loaded = load_model("bench", folder, wanted, self._emit)
        if loaded.engine is None:
            raise SystemExit("The model generates nothing.")
        self.report: LoadReport = loaded.report
        self._engine: Engine = loaded.engine
        self._engine.start()

    def close(self) -> None:
        self._engine.stop()

    def run(self, prompt_ids: list[tuple[int, ...]], tokens: int, *, fresh: bool = True) -> Timing:
        """Run the prompts concurrently. With `fresh`, no prompt has a prefix in the cache."""
        began = time.perf_counter()
        names = [self._submit(ids, tokens, fresh=fresh) for ids in prompt_ids]
        with self._news:
            self._news.wait_for(lambda: not self._unfinished)
        times = [self._times.pop(name) for name in names]
        took = max(one[-1] for one in times) - began
        steps = [(one[-1] - one[0]) / max(len(one) - 1, 1) for one in times]
        first = [one[0] - began for one in times]
        return Timing(sum(map(len, times)) / took, statistics.median(steps) * 1000, statistics.median(first) * 1000)

    def _submit(self, ids: tuple[int, ...], tokens: int, *, fresh: bool) -> str:
        self._count += 1
        name = str(self._count)
        self._times[name] = []
        with self._news:
            self._unfinished.add(name)
        # Users never get each other's cached prefixes.
        user = name if fresh else "one"
        sampling = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
        self._engine.submit(GenerationRequest(request_id=name, prompt_ids=ids, sampling=sampling, user=user))
        return name

    def _emit(self, outputs: list[GenerationOutput]) -> None:
        now = time.perf_counter()
        with self._news:
            for output in outputs:
                self._times[output.request_id].append(now)
                if output.finish_reason:
                    self._unfinished.discard(output.request_id)
            self._news.notify()


class TransformersBaseline:
    """`generate` with a static batch, and `generate_batch`, its continuous batching."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

    def run(self, prompt_ids: list[tuple[int, ...]], tokens: int) -> float:
        """Return the tokens per second."""
        ids = torch.tensor(prompt_ids)
        began = time.perf_counter()
        with torch.inference_mode():
            whole = self._model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                max_new_tokens=tokens,
                min_new_tokens=tokens,
                pad_token_id=0,
            )
        return len(prompt_ids) * (whole.shape[1] - ids.shape[1]) / (time.perf_counter() - began)

    def run_continuously(self, prompt_ids: list[tuple[int, ...]], tokens: int) -> float:
        model = AutoModelForCausalLM.from_pretrained(
            self._folder, dtype=torch.float32, attn_implementation="paged|sdpa"
        )
        config = GenerationConfig(max_new_tokens=tokens, do_sample=False, eos_token_id=-1, pad_token_id=0)
        began = time.perf_counter()
        outputs = model.generate_batch([list(ids) for ids in prompt_ids], generation_config=config)
        took = time.perf_counter() - began
        return sum(len(output.generated_tokens) for output in outputs.values()) / took


def bandwidth() -> float:
    """Return the memory bandwidth of all threads in bytes per second, the best of several passes over 256 MiB."""
    data = torch.ones(64 * 1024 * 1024)
    best = 0.0
    for _ in range(8):
        began = time.perf_counter()
        data.sum()
        best = max(best, data.nbytes / (time.perf_counter() - began))
    return best
