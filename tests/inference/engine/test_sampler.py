"""The vectorised sampler against transformers' logits processors and plain arithmetic."""

import pytest
import torch
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from inference.engine.errors import InvalidRequest
from inference.engine.request import SamplingParams
from inference.engine.sampler import NotNumbers, Sampler, check_sampling

VOCABULARY = 400
PROMPT = [3, 5, 5, 9]
CASES = [
    SamplingParams(),
    SamplingParams(temperature=0.6),
    SamplingParams(top_k=1),
    SamplingParams(top_k=7, temperature=1.5),
    SamplingParams(top_k=10_000),
    SamplingParams(top_p=0.3),
    SamplingParams(top_p=0.999),
    SamplingParams(top_p=0.0),
    SamplingParams(top_k=50, top_p=0.5, temperature=0.8, repeat_penalty=1.3),
    SamplingParams(repeat_penalty=0.5, top_p=0.9),
]


def reference(logits: Tensor, params: SamplingParams) -> Tensor:
    """Probabilities of the next token as transformers computes them, [vocabulary]."""
    steps = LogitsProcessorList([RepetitionPenaltyLogitsProcessor(params.repeat_penalty)])
    steps.append(TemperatureLogitsWarper(params.temperature))
    if params.top_k:
        steps.append(TopKLogitsWarper(params.top_k))
    if params.top_p < 1:
        steps.append(TopPLogitsWarper(params.top_p))
    return steps(torch.LongTensor([PROMPT]), torch.FloatTensor(logits[None].clone()))[0].softmax(-1)


def draws(logits: Tensor, params: list[SamplingParams], rounds: int) -> Tensor:
    """How often each token came, as a share; every row of the batch has its own parameters. [rows, vocabulary]"""
    slots = list(range(len(params)))
    sampler = Sampler(slots=len(params), context_size=len(PROMPT) + 1)
    counts = torch.zeros(len(params), VOCABULARY)
    for round_ in range(rounds):
        for slot, one in zip(slots, params, strict=True):
            seeded = SamplingParams(
                temperature=one.temperature,
                top_k=one.top_k,
                top_p=one.top_p,
                repeat_penalty=one.repeat_penalty,
                seed=round_,
            )
            sampler.admit(slot, seeded, PROMPT)
        for slot, token in enumerate(sampler.sample(logits.expand(len(params), -1), slots)):
            counts[slot, token] += 1
    return counts / rounds


def test_shares_are_those_of_transformers_for_every_mix_of_parameters() -> None:
    logits = torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(1)) * 3
    rounds = 1500
    shares = draws(logits, CASES, rounds)
    for share, params in zip(shares, CASES, strict=True):
        wanted = reference(logits, params)
        assert share[wanted == 0].sum() == 0, params
        # Six standard deviations of a share.
        assert ((share - wanted).abs() <= 6 * (wanted * (1 - wanted) / rounds).sqrt() + 1e-3).all(), params


def test_a_flat_distribution_is_cut_exactly_though_it_needs_more_than_the_first_candidates() -> None:
    logits = torch.linspace(0.01, 0, VOCABULARY)
    sampler = Sampler(slots=1, context_size=1000)
    sampler.admit(0, SamplingParams(top_p=0.75, seed=0), [0])
    drawn = {sampler.sample(logits[None], [0])[0] for _ in range(3000)}
    kept = int((logits.softmax(-1).cumsum(-1) < 0.75).sum()) + 1
    assert max(drawn) < kept
    assert len(drawn) > 0.95 * kept


def test_greedy_takes_the_best_and_the_penalty_looks_at_prompt_and_output() -> None:
    logits = torch.zeros(1, 10)
    logits[0, 4], logits[0, 5], logits[0, 6] = 3.0, 2.9, 2.8
    sampler = Sampler(slots=2, context_size=20)
    sampler.admit(1, SamplingParams(temperature=0, repeat_penalty=2.0), [5])
    assert [sampler.sample(logits, [1])[0] for _ in range(3)] == [4, 6, 4]


def test_a_new_request_in_a_slot_does_not_remember_the_last_one() -> None:
    logits = torch.zeros(1, 10)
    logits[0, 4] = 3.0
    logits[0, 6] = 2.0
    sampler = Sampler(slots=1, context_size=20)
    for _ in range(2):
        sampler.admit(0, SamplingParams(temperature=0, repeat_penalty=2.0), [1, 2])
        assert sampler.sample(logits, [0]) == [4]


def test_a_rows_draw_does_not_depend_on_its_neighbours() -> None:
    logits = torch.randn(len(CASES), VOCABULARY, generator=torch.Generator().manual_seed(2))
    params = SamplingParams(top_p=0.95, temperature=0.9, seed=11)

    def tokens(slots: list[int]) -> list[int]:
        sampler = Sampler(slots=len(CASES), context_size=100)
        for slot in slots:
            sampler.admit(slot, params if slot == 0 else CASES[slot], PROMPT)
        return [sampler.sample(logits[slots], slots)[0] for _ in range(50)]

    assert tokens([0]) == tokens(list(range(len(CASES))))


@pytest.mark.parametrize("tiny", [1e-3, 1e-30, 1e-300])
def test_the_least_temperature_and_penalty_are_still_numbers(tiny: float) -> None:
    logits = torch.randn(1, VOCABULARY, generator=torch.Generator().manual_seed(3)) * 10
    sampler = Sampler(slots=1, context_size=20)
    sampler.admit(0, SamplingParams(temperature=tiny, top_p=0.9), PROMPT)
    assert sampler.sample(logits, [0]) == [int(logits.argmax())]
    sampler.admit(0, SamplingParams(repeat_penalty=tiny), PROMPT)
    assert sampler.sample(logits.abs(), [0])[0] in PROMPT


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_logits_that_are_not_numbers_are_refused(broken: float) -> None:
    logits = torch.zeros(1, 10)
    logits[0, 3] = broken
    sampler = Sampler(slots=1, context_size=5)
    sampler.admit(0, SamplingParams(), [1])
    with pytest.raises(NotNumbers):
        sampler.sample(logits, [0])


@pytest.mark.parametrize(
    ("params", "named"),
    [
        (SamplingParams(max_tokens=0), "max_tokens"),
        (SamplingParams(temperature=-0.1), "temperature"),
        (SamplingParams(temperature=float("nan")), "temperature"),
        (SamplingParams(top_p=1.1), "top_p"),
        (SamplingParams(top_k=-1), "top_k"),
        (SamplingParams(repeat_penalty=0), "repeat_penalty"),
        (SamplingParams(repeat_penalty=2.1), "repeat_penalty"),
        (SamplingParams(stop=("a", "")), "stop"),
    ],
)
def test_a_parameter_out_of_range_is_named(params: SamplingParams, named: str) -> None:
    with pytest.raises(InvalidRequest, match=f"`{named}` must be"):
        check_sampling(params)
