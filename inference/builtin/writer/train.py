"""Trains the writer, a LoRA of SmolLM2-135M-Instruct, on the corpus: ``python -m inference.builtin.writer.train``.

A run is seeded, saves its state every two minutes and goes on from there when it is started again: a run that was ended
and started again gives the weights of one that was not. The learning rate warms up and falls along a half cosine over
``--steps``. The loss covers the answers only. A step takes about ten seconds of one core.
"""

import argparse
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from random import Random

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from inference.builtin import WRITER
from inference.builtin.objectives import padded
from inference.builtin.writer.corpus import WriterExample, draw_example
from inference.builtin.writer.lora import (
    LoraSize,
    adapter_parameters,
    add_adapter,
    answer_loss,
    read_base,
    save_adapter,
)
from inference.engine import Tokenizer, load_tokenizer

BASE = "SmolLM2-135M-Instruct"
CHUNK = 96  # conversations drawn at a time, to be sorted by length
SAVE_EVERY_SECONDS = 120
WARM_UP = 0.04
MIN_RATE = 0.05  # of the full learning rate

Batch = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Settings:
    """Settings of a run. batch: tokens in a step. rate: the full learning rate."""

    steps: int = 350
    batch: int = 1024
    rank: int = 8
    rate: float = 1e-3
    seed: int = 1


@dataclass
class TrainingProgress:
    """Progress of a run, saved with its state. batch: number of steps in the current chunk."""

    chunk: int = 0
    batch: int = 0
    step: int = 0
    tokens: int = 0


def encode(tokenizer: Tokenizer, example: WriterExample) -> tuple[list[int], int]:
    """Return the ids of a conversation with its end, and how many of them are the request."""
    request, answer = tokenizer.encode_chat(example.messages), tokenizer.encode(example.answer)
    return [*request, *answer, int(tokenizer.eos_id or 0)], len(request)


class Batches:
    """Batches of conversations of about one length: ids, places that predict an answer's token, and those tokens."""

    def __init__(self, tokenizer: Tokenizer, seed: int, size: int) -> None:
        self.tokenizer, self.seed, self.size = tokenizer, seed, size

    def of_chunk(self, chunk: int) -> list[Batch]:
        """Return the batches of a chunk of the corpus, which depend on the seed and its number only."""
        random = Random(f"{self.seed}:writer:{chunk}")
        rows = [encode(self.tokenizer, draw_example(random)) for _ in range(CHUNK)]
        rows.sort(key=lambda row: len(row[0]))
        batches = []
        while rows:
            count = max(1, self.size // len(rows[-1][0]))
            some, rows = rows[-count:], rows[:-count]
            ids = padded([row for row, _ in some], 0)
            answered = [[0] * (start - 1) + [1] * (len(row) - start) for row, start in some]
            places = padded(answered, 0, ids.shape[1]).flatten().nonzero().squeeze(1)
            batches.append((ids, places, ids.flatten()[places + 1]))
        random.shuffle(batches)
        return batches


class WriterTraining:
    """One training run of the adapter, with a state on disk to resume from."""

    def __init__(
        self,
        model: LlamaForCausalLM,
        tokenizer: Tokenizer,
        settings: Settings,
        work: Path,
        start: Path | None = None,
    ) -> None:
        torch.manual_seed(settings.seed)
        self.model, self.settings = model, settings
        self.adapter = LoraSize(settings.rank)
        add_adapter(model, self.adapter)
        self.parameters = dict(adapter_parameters(model))
        self.optimizer = torch.optim.AdamW(self.parameters.values(), betas=(0.9, 0.98), weight_decay=0.0, fused=True)
        self.batches = Batches(tokenizer, settings.seed, settings.batch)
        self.progress = TrainingProgress()
        work.mkdir(parents=True, exist_ok=True)
        self.state_path = work / "writer.safetensors"
        if self.state_path.exists():
            self._restore()
        elif start:
            self._load(start)

    def finish(self) -> None:
        """Train to the end of the run, and save the state at the end and every two minutes."""
        saved_at = time.monotonic()
        for loss in self.steps():
            print(f"{self.progress} loss {loss:.4f}", flush=True)
            if time.monotonic() - saved_at > SAVE_EVERY_SECONDS:
                saved_at = time.monotonic()
                self.save()
        self.save()

    def steps(self) -> Iterator[float]:
        """Make the remaining steps, and yield the loss after each."""
        progress = self.progress
        while progress.step < self.settings.steps:
            for batch in islice(self.batches.of_chunk(progress.chunk), progress.batch, None):
                loss = self._step(batch)
                progress.batch += 1
                progress.step += 1
                progress.tokens += batch[0].numel()
                yield loss
                if progress.step >= self.settings.steps:
                    return
            progress.chunk, progress.batch = progress.chunk + 1, 0

    def _step(self, batch: Batch) -> float:
        done = self.progress.step / self.settings.steps
        rate = max(MIN_RATE, min((done + 0.002) / WARM_UP, 0.5 + 0.5 * math.cos(math.pi * done)))
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.rate * rate
        loss = answer_loss(self.model, *batch)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(list(self.parameters.values()), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()

    def save(self) -> None:
        """Write the state. A run that is ended meanwhile leaves the last one."""
        names = list(self.parameters)
        tensors = {f"adapter.{name}": value.detach() for name, value in self.parameters.items()}
        for index, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{key}.{names[index]}": value for key, value in moments.items()}
        unfinished = self.state_path.with_suffix(".unfinished")
        save_file(tensors, unfinished, metadata={"progress": json.dumps(asdict(self.progress))})
        unfinished.replace(self.state_path)

    def _load(self, folder: Path) -> None:
        """Begin with the weights of an adapter of the same size."""
        saved = load_file(folder / "adapter_model.safetensors")
        with torch.no_grad():
            for name, value in self.parameters.items():
                value.copy_(saved[f"base_model.model.{name}"])

    def _restore(self) -> None:
        with safe_open(self.state_path, framework="pt") as state:
            self.progress = TrainingProgress(**json.loads(state.metadata()["progress"]))
            saved = {name: state.get_tensor(name) for name in state.keys()}  # noqa: SIM118
        with torch.no_grad():
            for name, value in self.parameters.items():
                value.copy_(saved[f"adapter.{name}"])
        moments = {
            index: {key: saved[f"optimizer.{key}.{name}"] for key in ("step", "exp_avg", "exp_avg_sq")}
            for index, name in enumerate(self.parameters)
        }
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})


def main() -> None:
    """Read the command line, train, and write the adapter's folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, required=True, help="the GGUF file of SmolLM2-135M-Instruct")
    parser.add_argument("--work", type=Path, default=Path("var/builtin"), help="where the run keeps its state")
    parser.add_argument("--out", type=Path, default=WRITER)
    parser.add_argument("--start", type=Path, help="the folder of an adapter whose weights the run begins with")
    parser.add_argument("--rate", type=float, default=Settings.rate, help="the full learning rate")
    parser.add_argument("--batch", type=int, default=Settings.batch, help="tokens in a step")
    parser.add_argument("--steps", type=int, default=Settings.steps)
    parser.add_argument("--seed", type=int, default=Settings.seed)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    tokenizer = load_tokenizer(options.base, options.base, is_generic=True)
    settings = Settings(steps=options.steps, batch=options.batch, rate=options.rate, seed=options.seed)
    run = WriterTraining(read_base(options.base), tokenizer, settings, options.work, options.start)
    run.finish()
    save_adapter(options.out, run.model, run.adapter, BASE)


if __name__ == "__main__":
    main()
