"""Trains the built-in models on the corpus, the describer first, then the encoder from its lower layers.

    python -m inference.builtin.train describer --minutes 80
    python -m inference.builtin.train encoder --minutes 10

A run is seeded, shows a progress bar, saves its state every few minutes and goes on from there with ``--resume``. It
ends after ``--tokens`` or ``--minutes``, whichever comes first, and then writes the model's folder. Matrices are
stepped by Muon (Jordan et al. 2024), the rest by AdamW; the learning rate warms up, holds, and falls linearly to
nothing over the last third. ``--compile`` is about half as fast again, and needs a C++ compiler.
"""

import argparse
import json
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random

import torch
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from inference.builtin import DESCRIBER, ENCODER
from inference.builtin.corpus.examples import draw_example
from inference.builtin.export import save_describer, save_encoder
from inference.builtin.network import Llama, Shape
from inference.builtin.objectives import Batch, DescriberRecipe, EncoderRecipe, Recipe
from inference.builtin.tokenizer import train_tokenizer

ENCODER_LAYERS = 2
SAVE_EVERY_SECONDS = 150


@dataclass
class Position:
    """Progress of a run, saved with its state."""

    chunk: int = 0
    step: int = 0
    tokens: int = 0
    seconds: float = 0.0


def rate(done: float) -> float:
    """Return the share of the full learning rate after a share of the run."""
    return max(0.0, min(1.0, done / 0.02 + 0.02, (1.0 - done) / 0.35))


def make_optimizers(model: Llama, muon_rate: float, adam_rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the layers' matrices, AdamW for the embedding and the norms."""
    matrices = [parameter for parameter in model.layers.parameters() if parameter.ndim == 2]
    rest = [parameter for parameter in model.parameters() if not any(parameter is matrix for matrix in matrices)]
    found: list[torch.optim.Optimizer] = [
        torch.optim.Muon(matrices, lr=muon_rate, weight_decay=0.02, momentum=0.95),
        torch.optim.AdamW(rest, lr=adam_rate, betas=(0.9, 0.95), weight_decay=0.0, fused=True),
    ]
    for optimizer in found:
        for group in optimizer.param_groups:
            group["full_rate"] = group["lr"]
    return found


class Run:
    """One training run: the model, its optimizers, and a state on disk to resume from."""

    def __init__(self, model: Llama, recipe: Recipe, options: argparse.Namespace) -> None:
        self.model, self.recipe, self.options = model, recipe, options
        self.optimizers = make_optimizers(model, options.muon, options.adam)
        self.position = Position()
        self.loss = torch.compile(recipe.loss, dynamic=True) if options.compile else recipe.loss
        self.state_path = options.work / f"{options.model}.safetensors"
        if options.resume and self.state_path.exists():
            self._restore()

    def _restore(self) -> None:
        with safe_open(self.state_path, framework="pt") as state:
            self.position = Position(**json.loads(state.metadata()["position"]))
            saved = {name: state.get_tensor(name) for name in state.keys()}  # noqa: SIM118
        self.model.load_state_dict({name: saved[f"model.{name}"] for name in self.model.state_dict()})
        for number, optimizer in enumerate(self.optimizers):
            moments: dict[int, dict[str, Tensor]] = defaultdict(dict)
            for name, tensor in saved.items():
                if name.startswith(f"optimizer.{number}."):
                    index, key = name.split(".")[2:]
                    moments[int(index)][key] = tensor
            optimizer.load_state_dict({**optimizer.state_dict(), "state": dict(moments)})

    def _save(self) -> None:
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for number, optimizer in enumerate(self.optimizers):
            for index, moments in optimizer.state_dict()["state"].items():
                tensors |= {f"optimizer.{number}.{index}.{key}": tensor for key, tensor in moments.items()}
        unfinished = self.state_path.with_suffix(".unfinished")
        save_file(tensors, unfinished, metadata={"position": json.dumps(asdict(self.position))})
        unfinished.replace(self.state_path)

    @property
    def done(self) -> float:
        """The share of the run that is done, by tokens or by time."""
        position, options = self.position, self.options
        share: float = max(position.tokens / options.tokens, position.seconds / 60 / options.minutes)
        return share

    def _step(self, batch: Batch) -> float:
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["full_rate"] * rate(self.done)
        loss = self.loss(self.model, *batch)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        self.position.step += 1
        self.position.tokens += batch[0].numel()
        return loss.item()

    def finish(self) -> None:
        """Trains to the end of the run."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:.1f} %"),
            TimeElapsedColumn(),
        )
        saved_at, started, before = time.monotonic(), time.monotonic(), self.position.seconds
        with Progress(*columns) as bar:
            task = bar.add_task(self.options.model, total=1.0, completed=0)
            while self.done < 1:
                losses = []
                for batch in self.recipe.batches(self.position.chunk, self.done):
                    losses.append(self._step(batch))
                    self.position.seconds = before + time.monotonic() - started
                    bar.update(task, completed=self.done)
                self.position.chunk += 1
                bar.console.print(f"{self.position} loss {sum(losses) / len(losses):.4f}")
                if time.monotonic() - saved_at > SAVE_EVERY_SECONDS or self.done >= 1:
                    saved_at = time.monotonic()
                    self._save()


def corpus_tokenizer(path: Path, seed: int) -> Tokenizer:
    """Return the tokenizer at the path, trained on the corpus if it is not there yet."""
    if not path.exists():
        random = Random(f"{seed}:tokenizer")
        texts = (content for _ in range(40_000) for _, content in draw_example(random).turns)
        train_tokenizer(texts, Shape().vocab_size).save(str(path))
    return Tokenizer.from_file(str(path))


def train_describer(options: argparse.Namespace) -> None:
    """Trains the describer and writes its folder."""
    model = Llama(Shape())
    if options.start:
        tokenizer = Tokenizer.from_file(str(options.start / "tokenizer.json"))
        learned = load_file(options.start / "model.safetensors")
        model.take({name.removeprefix("model."): weight for name, weight in learned.items()})
    else:
        tokenizer = corpus_tokenizer(options.work / "tokenizer.json", options.seed)
    Run(model, DescriberRecipe(tokenizer, options.seed, options.batch), options).finish()
    save_describer(options.out or DESCRIBER, model, tokenizer)


def train_encoder(options: argparse.Namespace) -> None:
    """Trains the encoder from the describer's embedding and lower layers, and writes its folder."""
    tokenizer = Tokenizer.from_file(str(options.work / "tokenizer.json"))
    model = Llama(replace(Shape(), num_hidden_layers=ENCODER_LAYERS, max_position_embeddings=512))
    with safe_open(options.work / "describer.safetensors", framework="pt") as learned:
        model.load_state_dict({name: learned.get_tensor(f"model.{name}") for name in model.state_dict()})
    Run(model, EncoderRecipe(tokenizer, options.seed), options).finish()
    save_encoder(options.out or ENCODER, model, tokenizer)


def main() -> None:
    """Reads the command line and trains the model it names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=("describer", "encoder"))
    parser.add_argument("--work", type=Path, default=Path("var/builtin"), help="where the run keeps its state")
    parser.add_argument("--out", type=Path, help="the model's folder, if not the one in the package")
    parser.add_argument("--start", type=Path, help="a describer's folder to go on from; else from random weights")
    parser.add_argument("--tokens", type=int, default=60_000_000)
    parser.add_argument("--minutes", type=float, default=80)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=8192, help="tokens in a step of the describer")
    parser.add_argument("--muon", type=float, default=0.02, help="the full learning rate of the matrices")
    parser.add_argument("--adam", type=float, default=3e-3, help="the full learning rate of the rest")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--resume", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    options.work.mkdir(parents=True, exist_ok=True)
    {"describer": train_describer, "encoder": train_encoder}[options.model](options)


if __name__ == "__main__":
    main()
