"""Suggestions to moderators on 1,000 judged reports: how many get one, and how many of these are right.

Each tenth of the reports in a random order is held out in turn; the others are the past decisions from which the shop's
own code learns and chooses from which confidence on it suggests. What it chooses depends on the order, so that four
fixed orders are measured, and the least covered one is printed too. The vectors are those of a model server. The
baseline of coverage is the promise of 40 %, that of precision 95 %. Parts in which 3 % or 97 % of the verdicts are
removals show what happens to a rare verdict.
"""

import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import django
import numpy as np
from numpy.typing import NDArray

from tests.benchmarks._table import Comparison, arguments, publish
from tests.benchmarks.suggestions._measure import JudgedReport, load
from tests.inference.running_server import running_server

MODELS = ("all-MiniLM-L6-v2", "stoa-encoder")
FOLDS, QUICK_FOLDS = 10, 5
ORDERS = 4
MIN_ALIKE_SIMILARITY = 0.97
BATCH = 100
REASON_NEIGHBORS = 15
RARE_SHARES = (0.03, 0.97)  # of removals


def main() -> None:
    given = arguments(__doc__ or "")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "commerce.config.settings.test")
    django.setup()
    reports = load()
    rows: list[Comparison] = []
    with tempfile.TemporaryDirectory(prefix="stoa") as home:
        models = Path(home) / "models"
        models.mkdir()
        server_settings = {"DJANGO_SETTINGS_MODULE": "inference.config.settings.base"}
        with running_server(Path(home), Path(home) / "run", models, load=list(MODELS), extra=server_settings) as server:
            for model in MODELS:
                inputs = embed(f"{server.url}/v1", server.keys["SUPER_ADMIN"], model, reports)
                folds = QUICK_FOLDS if given.quick else FOLDS
                rows += measured(model, reports, inputs, folds)
                for share in RARE_SHARES if model == MODELS[0] else ():
                    part = subsample(reports, share)
                    rows += measured(model, [reports[n] for n in part], inputs[part], QUICK_FOLDS, share)
    publish(rows, given.json)


def embed(url: str, key: str, model: str, reports: Sequence[JudgedReport]) -> NDArray[np.float32]:
    """Return the rows that the shop's worker would store."""
    from commerce.model_server.embeddings import cut_text, embeddings_client
    from commerce.moderation.suggestions.case_texts import text_features
    from commerce.moderation.suggestions.vectors import project

    client = embeddings_client(base_url=url, api_key=key, timeout_seconds=120)
    parts = []
    for texts in ([report.content for report in reports], [report.message for report in reports]):
        written = [cut_text(text) for text in texts if text]
        batches = [written[start : start + BATCH] for start in range(0, len(written), BATCH)]
        vectors = [vector for batch in batches for vector in client.embed_or_shorten(model, batch)]
        found = iter([vector if vector is None else project(vector) for vector in vectors])
        size = next(len(project(vector)) for vector in vectors if vector is not None)
        rows = [next(found) if text else None for text in texts]
        parts.append(np.stack([np.zeros(size, np.float32) if row is None else row for row in rows]))
    features = np.array([text_features(report.content) for report in reports], np.float32)
    return np.concatenate([*parts, features], axis=1).astype(np.float16).astype(np.float32)


def subsample(reports: Sequence[JudgedReport], share: float) -> NDArray[np.int64]:
    """Return the positions of as many reports as there can be with this share of removals, in their order."""
    labels = np.array([report.is_removal for report in reports])
    count = int(min(labels.sum() / share, (~labels).sum() / (1 - share)))
    random, removals = np.random.default_rng(1), round(count * share)
    chosen = [
        random.choice(np.flatnonzero(labels), removals, replace=False),
        random.choice(np.flatnonzero(~labels), count - removals, replace=False),
    ]
    return np.sort(np.concatenate(chosen))


def measured(
    model: str, reports: Sequence[JudgedReport], inputs: NDArray[np.float32], folds: int, share: float = 0.0
) -> list[Comparison]:
    """Print the figures of one embedding model and return its rows. `share` is that of removals in a part."""
    from commerce.moderation.suggestions.classifier import fit, probabilities
    from commerce.moderation.suggestions.training import VERDICTS, measured_rules

    labels, size = np.array([report.is_removal for report in reports]), (inputs.shape[1] - 6) // 2
    name = f"{model}, {share:.0%} removals" if share else model
    kinds = np.array([report.kind for report in reports])
    shown: dict[tuple[str, str], list[bool]] = defaultdict(list)
    reasons, counts = [], [0] * ORDERS
    for number, past, held_out in splits(len(reports), folds):
        weights = fit(inputs[past], labels[past])
        rules = measured_rules(inputs[past], labels[past], kinds[past], contents=inputs[past, :size])
        for row, removal in zip(held_out, probabilities(weights, inputs[held_out]), strict=True):
            for action, share in zip(VERDICTS, (removal, 1 - removal), strict=True):
                rule = rules[kinds[row]].get(action)
                if rule and share >= rule["confidence"]:
                    counts[number] += 1
                    shown[kinds[row], action].append(bool(labels[row] == (action == VERDICTS[0])))
                    if action == VERDICTS[0] and labels[row]:
                        reasons.append(likely_reason(reports, inputs, past, row) == reports[row].right_reason)
                    break
    for (kind, action), right in sorted(shown.items()):
        among = ORDERS * int((kinds == kind).sum())
        print(f"{name}: {kind}, {action}: {len(right) / among:.1%} shown, {np.mean(right):.1%} of them right")
    if reasons:
        print(f"{name}: the reason of {np.mean(reasons):.1%} of {len(reasons)} right suggestions to remove was right")
    similar = inputs[:, :size] @ inputs[:, :size].T
    pairs = int((np.triu(similar, 1) >= MIN_ALIKE_SIMILARITY).sum())
    print(f"{name}: {pairs} pairs of contents are nearly the same (cosine {MIN_ALIKE_SIMILARITY} or more)", flush=True)
    right_count = sum(sum(each) for each in shown.values())
    coverages = [100 * count / len(reports) for count in counts]
    return [
        Comparison(f"{name}: coverage of {len(reports)} reports", sum(coverages) / ORDERS, 40, "%"),
        Comparison(f"{name}: coverage in the least covered order", min(coverages), 40, "%"),
        Comparison(f"{name}: precision of what is shown", 100 * right_count / max(sum(counts), 1), 95, "%"),
    ]


def splits(count: int, folds: int) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the number of an order, the past and what is held out, each row once an order."""
    for number in range(ORDERS):
        order = np.random.default_rng(number).permutation(count)
        for held_out in np.array_split(order, folds):
            yield number, order[~np.isin(order, held_out)], held_out


def likely_reason(reports: Sequence[JudgedReport], inputs: NDArray[np.float32], past: NDArray[Any], row: int) -> str:
    """Return the reason as the case page does, from the reasons that the reporters of past removals chose."""
    size = inputs.shape[1] - 6
    removals = [each for each in past if reports[each].is_removal and reports[each].reported_reason]
    removals = [each for each in removals if reports[each].kind == reports[row].kind]
    similarities = inputs[removals][:, :size] @ inputs[row][:size] / 2
    votes: dict[str, float] = defaultdict(float)
    for place in np.argsort(-similarities)[:REASON_NEIGHBORS]:
        if similarities[place] > 0:
            votes[reports[removals[place]].reported_reason] += float(similarities[place]) ** 2
    return max(votes, key=lambda reason: votes[reason], default="")


if __name__ == "__main__":
    main()
