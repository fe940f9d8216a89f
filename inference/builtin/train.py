"""Trains the built-in models on the corpus: ``python -m inference.builtin.train describer --tokens 40000000``.

The forward pass is a plain Llama whose weights are saved in the names that transformers loads. Matrices are stepped by
Muon (Jordan et al. 2024), the rest by AdamW; the learning rate warms up, holds, and falls linearly to nothing over the
last half, by the share of the tokens (or of ``--minutes``, whichever is further on).
"""

import argparse
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from inference.builtin.corpus import draw_example
from inference.builtin.net import Llama, Shape
from inference.builtin.tokenizer import CHAT_TEMPLATE, END, PAD, encode_chats, train_tokenizer

CHUNK = 2400  # examples drawn at a time, to be sorted by length


# --- the describer --------------------------------------------------------------------------------------------------


def batches(tokenizer: Tokenizer, seed: int, chunk: int, size: int, copy_share: float) -> list[tuple[Tensor, Tensor]]:
    """The batches of one chunk of the corpus: ids and learned targets (-100 elsewhere), at most `size` tokens each."""
    random = Random(f"{seed}:{chunk}")
    encoded = encode_chats(tokenizer, [draw_example(random, copy_share) for _ in range(CHUNK)])
    encoded.sort(key=lambda pair: len(pair[0]))
    found = []
    while encoded:
        length = -(-len(encoded[-1][0]) // 8) * 8
        rows, encoded = encoded[-(size // length) :], encoded[: -(size // length)]
        ids = torch.zeros(len(rows), length, dtype=torch.long)
        targets = torch.full((len(rows), length), -100)
        for row, (tokens, learned) in enumerate(rows):
            ids[row, : len(tokens)] = torch.tensor(tokens)
            following = [token if wanted else -100 for token, wanted in zip(tokens[1:], learned[1:], strict=True)]
            targets[row, : len(following)] = torch.tensor(following)
        found.append((ids, targets))
    random.shuffle(found)
    return found


def describer_loss(model: Llama, ids: Tensor, places: Tensor, targets: Tensor) -> Tensor:
    """The mean cross entropy of the tokens that follow the given places of the flattened ids."""
    hidden = model(ids).flatten(0, 1)[places]
    return F.cross_entropy(F.linear(hidden, model.embedding.to(hidden.dtype)).float(), targets)


# --- the run --------------------------------------------------------------------------------------------------------


@dataclass
class Progress:
    """How far a run is; saved with its checkpoint."""

    chunk: int = 0
    step: int = 0
    tokens: int = 0
    seconds: float = 0.0


def rate(done: float) -> float:
    """The share of the full learning rate after a share of the run: 2 % warm-up, a plateau, a linear fall from half."""
    return max(0.0, min(1.0, done / 0.02 + 0.02, (1.0 - done) / 0.5))


def optimizers(model: Llama, muon_rate: float, adam_rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the layers' matrices, AdamW for the embedding and the norms."""
    matrices = [p for p in model.layers.parameters() if p.ndim == 2]
    rest = [p for p in model.parameters() if not any(p is m for m in matrices)]
    found = [
        torch.optim.Muon(matrices, lr=muon_rate, weight_decay=0.02, momentum=0.95),
        torch.optim.AdamW(rest, lr=adam_rate, betas=(0.9, 0.95), weight_decay=0.0, fused=True),
    ]
    for optimizer in found:
        for group in optimizer.param_groups:
            group["full_rate"] = group["lr"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tokens", type=int, default=45_000_000)
    parser.add_argument("--minutes", type=float, default=85)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--muon", type=float, default=0.02)
    parser.add_argument("--adam", type=float, default=3e-3)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--resume", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "tokenizer.json"
    if not path.exists():
        random = Random(f"{options.seed}:tokenizer")
        texts = (content for _ in range(40_000) for _, content in draw_example(random).turns)
        train_tokenizer(texts, Shape.vocab_size).save(str(path))
    tokenizer = Tokenizer.from_file(str(path))
    model = Llama(Shape())
    print(sum(p.numel() for p in model.parameters()), "parameters", flush=True)
    steppers = optimizers(model, options.muon, options.adam)
    progress = Progress()
    checkpoint = options.out / "checkpoint.pt"
    if options.resume and checkpoint.exists():
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        for stepper, state in zip(steppers, saved["optimizers"], strict=True):
            stepper.load_state_dict(state)
        progress = Progress(**saved["progress"])
    run = torch.compile(describer_loss, dynamic=True) if options.compile else describer_loss
    saved_at = started = time.monotonic()
    before = progress.seconds
    smooth, count = 0.0, 0
    while True:
        done = max(progress.tokens / options.tokens, progress.seconds / 60 / options.minutes)
        copy = 0.6 if done < 0.1 else 0.15
        for ids, targets in batches(tokenizer, options.seed, progress.chunk, options.batch, copy):
            done = max(progress.tokens / options.tokens, progress.seconds / 60 / options.minutes)
            for stepper in steppers:
                for group in stepper.param_groups:
                    group["lr"] = group["full_rate"] * rate(done)
            places = (targets.reshape(-1) >= 0).nonzero().squeeze(1)
            loss = run(model, ids, places, targets.reshape(-1)[places])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for stepper in steppers:
                stepper.step()
                stepper.zero_grad()
            progress.step += 1
            progress.tokens += ids.numel()
            progress.seconds = before + time.monotonic() - started
            smooth, count = smooth + loss.item(), count + 1
            if progress.step % 50 == 0:
                print(f"step {progress.step} tokens {progress.tokens/1e6:.2f}M loss {smooth/count:.4f} done {done:.3f} {progress.tokens/progress.seconds:.0f} tok/s", flush=True)
                smooth, count = 0.0, 0
        progress.chunk += 1
        if time.monotonic() - saved_at > 150 or done >= 1:
            saved_at = time.monotonic()
            state = {"model": model.state_dict(), "optimizers": [s.state_dict() for s in steppers], "progress": asdict(progress)}
            torch.save(state, checkpoint.with_suffix(".tmp"))
            checkpoint.with_suffix(".tmp").replace(checkpoint)
            weights = {f"model.{name}": weight for name, weight in model.exported().items()}
            save_file(weights, options.out / "model.safetensors", metadata={"format": "pt"})
        if done >= 1:
            return


if __name__ == "__main__":
    main()
