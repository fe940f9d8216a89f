"""Descriptions that the demo's model writes of products that it never saw, asked of the shop's API one after the other.

`DESCRIPTIONS=N` sets the number of products (200). Their kinds and names are those that the recipe of `stoa-writer`
keeps out of training. A fallback counts as a failure in every figure. The kind counts as changed if the text calls the
product one of the recipe's other kinds; invented claims are those that the shop's rules know, so only a reader
finds others: the texts are printed with their inputs, all of them, in their order.
"""

import os
import re
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

import httpx2

from commerce.descriptions.text.prompts import DescriptionRequest
from commerce.descriptions.text.rules import broken_rules
from inference.builtin import WRITER
from inference.builtin.corpus.text import repeated_five_grams
from inference.builtin.writer.corpus import draw_case
from inference.builtin.writer.facts import GivenProduct
from inference.builtin.writer.product_kinds import KINDS, UNSEEN_KINDS
from inference.engine.models.kernel_build import FOLDER_VARIABLE, build_kernels
from tests.benchmarks._table import Comparison, arguments, publish
from tests.running_stoa import COMPILED_DIR, RunningStoa, start_stoa, stop_stoa

SEED = "descriptions"
ENDS = (".", "!", "?")
OPENING_WORDS = 5
TONES = ("", "", "friendly", "formal", "playful", "luxurious")
GOALS = {  # percent, and seconds; of these two less is better
    "names the product": 99,
    "never changes its kind": 99,
    "has every given fact": 95,
    "invents nothing": 97,
    "ends itself": 99,
    "repeats no five words": 99,
    "most common opening": 10,
    "fallbacks": 2,
    "median seconds": 1.5,
}


@dataclass(frozen=True)
class WrittenText:
    """A text of the API with its product, and the seconds that it took."""

    product: GivenProduct
    tone: str
    text: str
    is_fallback: bool
    seconds: float

    @property
    def rest(self) -> str:
        """Return the text without what was given."""
        rest = self.text
        for given in sorted((self.product.name, *(fact.text for fact in self.product.facts)), key=len, reverse=True):
            rest = re.sub(re.escape(given), " ", rest, flags=re.IGNORECASE)
        return rest

    @property
    def claims(self) -> list[str]:
        """Return the claims of the text that the shop's rules know and nobody gave."""
        keywords = tuple(fact.text for fact in self.product.facts)
        request = DescriptionRequest(product_name=self.product.name, keywords=keywords)
        return [rule for rule in broken_rules(self.text, request, ended=True) if rule.startswith("it states")]

    @property
    def keeps_kind(self) -> bool:
        """Return whether the text calls the product none of the recipe's other kinds."""
        own = self.product.kind.noun.lower() if self.product.kind else ""
        others = {kind.noun.lower() for kind in (*KINDS, *UNSEEN_KINDS)} - {own}
        called = re.findall(r"\b(?:an?|is|are|this|these) ((?:[\w'-]+ ){0,2}[\w'-]+)", self.rest.lower())
        return not any(words == other or words.startswith(f"{other} ") for words in called for other in others)

    @property
    def opening(self) -> str:
        words = re.findall(r"[\w']+", re.sub(re.escape(self.product.name), " ", self.text, flags=re.IGNORECASE).lower())
        return " ".join(words[:OPENING_WORDS])


def write_texts(stoa: RunningStoa, count: int) -> list[WrittenText]:
    """Return the texts of this many products. A product without a text ends the benchmark."""
    random, texts = Random(SEED), []
    headers = {"Authorization": f"Bearer {stoa.login('STORE_OWNER')}"}
    with httpx2.Client(base_url=stoa.commerce_url, headers=headers, timeout=60) as client:
        for _ in range(count):
            product, tone = draw_case(random), random.choice(TONES)
            body = {"product_name": product.name, "keywords": [fact.text for fact in product.facts]}
            began = time.perf_counter()
            response = client.post("/api/generate-descriptions", json=body | ({"tone": tone} if tone else {}))
            seconds = time.perf_counter() - began
            if response.status_code != 200:
                sys.exit(f"The shop answered {response.status_code}: {response.text}")
            answer = response.json()
            texts.append(WrittenText(product, tone, answer["description"], bool(answer.get("fallback")), seconds))
    return texts


def figures(texts: list[WrittenText]) -> dict[str, float]:
    """Return the figures by the names of `GOALS`."""
    written = [text for text in texts if not text.is_fallback]

    def share(good: list[bool]) -> float:
        return 100 * sum(good) / len(texts)

    openings = Counter(text.opening for text in written)
    return {
        "names the product": share([text.product.name.lower() in text.text.lower() for text in written]),
        "never changes its kind": share([text.keeps_kind for text in written]),
        "has every given fact": share(
            [all(fact.text.lower() in text.text.lower() for fact in text.product.facts) for text in written]
        ),
        "invents nothing": share([not text.claims for text in written]),
        "ends itself": share([text.text.endswith(ENDS) for text in written]),
        "repeats no five words": share([not repeated_five_grams(text.rest) for text in written]),
        "most common opening": 100 * max(openings.values(), default=0) / len(texts),
        "fallbacks": 100 * (len(texts) - len(written)) / len(texts),
        "median seconds": statistics.median(text.seconds for text in texts),
    }


def print_text(number: int, text: WrittenText) -> None:
    inputs = [text.product.name, ", ".join(fact.text for fact in text.product.facts), text.tone]
    mark = " (fallback)" if text.is_fallback else ""
    print(f"{number}. {' | '.join(filter(None, inputs))}\n   {text.text}{mark} [{text.seconds:.2f} s]", flush=True)


def main() -> None:
    given = arguments(str(__doc__).partition("\n")[0])
    count = 20 if given.quick else int(os.environ.get("DESCRIPTIONS", "200"))
    os.environ[FOLDER_VARIABLE] = str(COMPILED_DIR)
    build_kernels()
    with tempfile.TemporaryDirectory(prefix="stoa-descriptions-") as home:
        settings = {"STOA_DESCRIPTIONS_MODEL": WRITER.name, "STOA_DESCRIPTIONS_PER_DAY": str(max(500, count))}
        stoa = start_stoa(Path(home), **settings)
        try:
            models = httpx2.get(f"{stoa.inference_url}/models", headers=stoa.headers(), timeout=30).json()["models"]
            if not any(model["id"] == WRITER.name and model["loaded"] for model in models):
                sys.exit(f"Not run: the base model of {WRITER.name} cannot be installed here.")
            texts = write_texts(stoa, count)
        finally:
            stop_stoa(stoa)
    for number, text in enumerate(texts, 1):
        print_text(number, text)
    measured = figures(texts)
    print(f"\nmeasured: {count} products; baseline: what is asked of the model")
    units = {name: "s" if name.endswith("seconds") else "%" for name in GOALS}
    publish([Comparison(name, measured[name], goal, units[name]) for name, goal in GOALS.items()], given.json)


if __name__ == "__main__":
    main()
