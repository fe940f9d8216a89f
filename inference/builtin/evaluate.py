"""Evaluation of the built-in models on products never seen in training: ``python -m inference.builtin.evaluate``.

Every figure is the model's own, from its first draw. A case has a name that training never had, and one to five
keywords whose combination it never had; half of the keywords are words or phrases that it never had at all.
"""

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

from inference.builtin import DESCRIBER, ENCODER
from inference.builtin.corpus.examples import DescriptionCase, draw_case, draw_pair
from inference.builtin.corpus.keywords import is_unseen
from inference.builtin.corpus.text import repeated_five_grams

MAX_NEW_TOKENS = 160
BATCH_SIZE = 50
SEEDS = 5


@dataclass(frozen=True)
class GeneratedDescription:
    """A description that the model generated for a case. `ended`: it stopped by itself."""

    case: DescriptionCase
    text: str
    ended: bool

    @property
    def names(self) -> bool:
        """Whether the text holds the product's name as it was given."""
        return self.case.product.name in self.text

    @property
    def missing(self) -> list[str]:
        """The keywords that the text does not hold, in whatever case."""
        return [k.text for k in self.case.product.keywords if k.text.lower() not in self.text.lower()]

    @property
    def repeats(self) -> bool:
        """Whether five words in a row occur twice, the name and the keywords aside."""
        given = sorted((self.case.product.name, *(k.text for k in self.case.product.keywords)), key=len, reverse=True)
        parts = re.split("|".join(map(re.escape, given)), self.text, flags=re.IGNORECASE)
        return repeated_five_grams(" ".join(f"{part} x{number}" for number, part in enumerate(parts)))


class Describer:
    """A describer's folder, loaded to write many descriptions at once in 32 bits."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder, padding_side="left")
        self.model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

    def write(
        self, cases: Sequence[DescriptionCase], *, temperature: float, seed: int
    ) -> Iterator[GeneratedDescription]:
        """Yield one text a case; temperature 0 is greedy, any other also keeps to the likeliest 90 %."""
        torch.manual_seed(seed)
        drawing = (
            {"do_sample": True, "temperature": temperature, "top_p": 0.9, "top_k": 0}
            if temperature
            else {"do_sample": False}
        )
        for start in range(0, len(cases), BATCH_SIZE):
            some = cases[start : start + BATCH_SIZE]
            chats = [[{"role": "user", "content": case.prompt}] for case in some]
            texts = self.tokenizer.apply_chat_template(chats, tokenize=False, add_generation_prompt=True)
            inputs = self.tokenizer(texts, return_tensors="pt", padding=True, return_token_type_ids=False)
            rows = self.model.generate(**inputs, **drawing, max_new_tokens=MAX_NEW_TOKENS)[
                :, inputs["input_ids"].shape[1] :
            ]
            for case, row in zip(some, rows, strict=True):
                ended = bool((row == self.tokenizer.eos_token_id).any())
                yield GeneratedDescription(case, self.tokenizer.decode(row, skip_special_tokens=True), ended)


def share(flags: Sequence[bool]) -> float:
    """Return the share of true ones; 1 for none at all."""
    return sum(flags) / len(flags) if flags else 1.0


def describer_figures(written: Sequence[GeneratedDescription]) -> dict[str, float]:
    """Return the published shares over what was written."""
    single = [(k.text, k.text in w.missing) for w in written for k in w.case.product.keywords]
    return {
        "names the product": share([w.names for w in written]),
        "uses every keyword": share([not w.missing for w in written]),
        "a keyword is used": share([not missed for _, missed in single]),
        "a keyword never seen in training is used": share([not missed for text, missed in single if is_unseen(text)]),
        f"ends by itself within {MAX_NEW_TOKENS} tokens": share([w.ended for w in written]),
        "repeats no 5-gram": share([not w.repeats for w in written]),
    }


def distinct_share(describer: Describer, cases: Sequence[DescriptionCase], temperature: float) -> float:
    """Return the share of distinct texts among those of several seeds for each case."""
    drawn = [[w.text for w in describer.write(cases, temperature=temperature, seed=seed)] for seed in range(SEEDS)]
    return sum(len(set(texts)) for texts in zip(*drawn, strict=True)) / (SEEDS * len(cases))


def sentence_vectors(folder: Path, texts: Sequence[str]) -> torch.Tensor:
    """Return the normalised vectors of the texts, [texts, hidden]."""
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="right")
    model = AutoModel.from_pretrained(folder, dtype=torch.float32)
    found = []
    for start in range(0, len(texts), BATCH_SIZE):
        some = list(texts[start : start + BATCH_SIZE])
        inputs = tokenizer(some, return_tensors="pt", padding=True, return_token_type_ids=False)
        with torch.inference_mode():
            states = model(**inputs).last_hidden_state
        counted = inputs["attention_mask"].unsqueeze(-1)
        found.append((states * counted).sum(dim=1) / counted.sum(dim=1))
    return torch.nn.functional.normalize(torch.cat(found), dim=-1)


def nearest_share(folder: Path, count: int, seed: int) -> float:
    """Return the share of held-out descriptions whose own product is the nearest of all."""
    random = Random(f"evaluate:{seed}")
    pairs = [draw_pair(random, held_out=True) for _ in range(count)]
    products, texts = (sentence_vectors(folder, side) for side in zip(*pairs, strict=True))
    return float(((texts @ products.T).argmax(dim=1) == torch.arange(count)).float().mean())


def main() -> None:
    """Print the figures of both models as a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--describer", type=Path, default=DESCRIBER)
    parser.add_argument("--encoder", type=Path, default=ENCODER)
    options = parser.parse_args()
    random = Random(f"evaluate:{options.seed}")
    cases = [draw_case(random) for _ in range(options.cases)]
    describer = Describer(options.describer)
    table = Table("figure", "greedy", "temperature 0.7")
    greedy, sampled = (
        describer_figures(list(track(describer.write(cases, temperature=t, seed=options.seed), total=len(cases))))
        for t in (0.0, 0.7)
    )
    for name, value in greedy.items():
        table.add_row(name, f"{value:.1%}", f"{sampled[name]:.1%}")
    table.add_row("distinct texts for distinct seeds", "", f"{distinct_share(describer, cases[:40], 0.7):.1%}")
    table.add_row(
        "nearest product of 1,000 is the right one", f"{nearest_share(options.encoder, 1000, options.seed):.1%}"
    )
    Console().print(table)


if __name__ == "__main__":
    main()
