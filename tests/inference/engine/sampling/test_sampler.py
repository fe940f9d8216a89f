"""The vectorised sampler against transformers' logits processors and plain arithmetic."""

from math import log
from typing import Any

import msgspec
import pytest
import torch
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from inference.engine.errors import InvalidRequest
from inference.engine.sampling import SamplingParams
from inference.engine.sampling.parameters import check_sampling
from inference.engine.sampling.sampler import SampledToken, Sampler

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
    SamplingParams(min_p=0.05, temperature=1.3),
    SamplingParams(min_p=1.0),
    SamplingParams(min_p=0.2, top_p=0.95),
    SamplingParams(min_p=0.1, top_k=30, top_p=0.9),
    SamplingParams(top_k=100, top_p=0.97),
]


def new_sampler(*, slots: int = 1, context_size: int = 1000, eos_ids: frozenset[int] = frozenset()) -> Sampler:
    return Sampler(slots=slots, context_size=context_size, eos_ids=eos_ids)


def writes(params: SamplingParams, logits: Tensor, times: int, prompt: list[int] = PROMPT, **known: Any) -> list[int]:
    """Return the tokens of one request if the logits are always the same, [vocabulary]."""
    sampler = new_sampler(**known)
    sampler.admit(0, params, prompt)
    return [sampler.sample(logits[None].clone(), [0])[0].token for _ in range(times)]


def reference(logits: Tensor, params: SamplingParams) -> Tensor:
    """Return transformers' probabilities of the next token, [vocabulary]."""
    steps = LogitsProcessorList([RepetitionPenaltyLogitsProcessor(params.repeat_penalty)])
    steps.append(TemperatureLogitsWarper(params.temperature))
    if params.top_k:
        steps.append(TopKLogitsWarper(params.top_k))
    if params.top_p < 1:
        steps.append(TopPLogitsWarper(params.top_p))
    if params.min_p:
        steps.append(MinPLogitsWarper(params.min_p))
    return steps(torch.LongTensor([PROMPT]), torch.FloatTensor(logits[None].clone()))[0].softmax(-1)


def draws(logits: Tensor, params: list[SamplingParams], rounds: int) -> Tensor:
    """Return the frequency of each token, [rows, vocabulary]. Every row of the batch has its own parameters."""
    slots = list(range(len(params)))
    sampler = new_sampler(slots=len(params), context_size=len(PROMPT) + 1)
    counts = torch.zeros(len(params), VOCABULARY)
    for round_ in range(rounds):
        for slot, one in zip(slots, params, strict=True):
            sampler.admit(slot, msgspec.structs.replace(one, seed=round_), PROMPT)
        for slot, sampled in enumerate(sampler.sample(logits.expand(len(params), -1), slots)):
            counts[slot, sampled.token] += 1
    return counts / rounds


def test_sampled_frequencies_match_transformers_for_every_mix_of_parameters() -> None:
    logits = torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(1)) * 3
    rounds = 1500
    shares = draws(logits, CASES, rounds)
    for share, params in zip(shares, CASES, strict=True):
        wanted = reference(logits, params)
        assert share[wanted == 0].sum() == 0, params
        # Six standard deviations of a share.
        assert ((share - wanted).abs() <= 6 * (wanted * (1 - wanted) / rounds).sqrt() + 1e-3).all(), params


def test_top_p_truncates_a_flat_distribution_exactly() -> None:
    logits = torch.linspace(0.01, 0, VOCABULARY)
    drawn = set(writes(SamplingParams(top_p=0.75, seed=0), logits, 3000))
    kept = int((logits.softmax(-1).cumsum(-1) < 0.75).sum()) + 1
    assert max(drawn) < kept
    assert len(drawn) > 0.95 * kept


@pytest.mark.parametrize("vocabulary", [1, 3, 63, 64, 65, 127, 400, 3001, 40_000])
@pytest.mark.parametrize("top_k", [0, 1, 5, 200])
def test_first_and_last_tokens_of_every_vocabulary_size_can_be_sampled(vocabulary: int, top_k: int) -> None:
    for best in {0, vocabulary // 2, vocabulary - 1}:
        logits = torch.zeros(vocabulary)
        logits[best] = 30.0
        assert writes(SamplingParams(temperature=0, top_k=top_k), logits, 1) == [best]
        assert writes(SamplingParams(top_k=top_k, seed=1), logits, 3) == [best] * 3
        assert writes(SamplingParams(top_k=top_k, top_p=0.5, seed=1), logits, 3) == [best] * 3


def test_greedy_takes_the_first_of_equal_scores() -> None:
    logits = torch.zeros(1000)
    logits[[130, 131, 900]] = 1.0
    assert writes(SamplingParams(temperature=0), logits, 1) == [130]


def test_greedy_takes_the_best_token_and_the_penalty_covers_prompt_and_output() -> None:
    logits = torch.zeros(10)
    logits[4], logits[5], logits[6] = 3.0, 2.9, 2.8
    assert writes(SamplingParams(temperature=0, repeat_penalty=2.0), logits, 3, [5]) == [4, 6, 4]


def test_presence_and_frequency_penalties_cover_only_the_output() -> None:
    logits = torch.zeros(10)
    logits[4], logits[5] = 3.0, 2.5
    assert writes(SamplingParams(temperature=0, presence_penalty=1.0), logits, 4, [4, 4]) == [4, 5, 4, 4]
    assert writes(SamplingParams(temperature=0, frequency_penalty=1.0), logits, 6, [4, 4]) == [4, 5, 4, 5, 4, 5]
    # Here the first token of the prompt, whose count stands in for places that are not used.
    both = SamplingParams(temperature=0, frequency_penalty=0.4, presence_penalty=0.2)
    sampler = new_sampler(slots=2)
    sampler.admit(0, both, [4])
    sampler.admit(1, both, list(range(10)))
    sampled = [sampler.sample(logits.repeat(2, 1), [0, 1]) for _ in range(5)]
    assert [[one.token for one in step] for step in sampled] == [[4, 4], [5, 5], [4, 4], [4, 4], [5, 5]]


def test_a_negative_penalty_makes_a_token_likelier() -> None:
    logits = torch.zeros(10)
    logits[4] = 0.1
    assert writes(SamplingParams(temperature=0, frequency_penalty=-2.0), logits, 3) == [4, 4, 4]
    assert writes(SamplingParams(temperature=0, presence_penalty=-1.0, logit_bias={3: 0.5}), logits, 2) == [3, 3]


def test_logit_bias_bans_and_forces_tokens_and_ignores_tokens_that_the_model_lacks() -> None:
    logits = torch.zeros(10)
    logits[4], logits[5] = 3.0, 2.0
    assert writes(SamplingParams(temperature=0, logit_bias={4: -100.0}), logits, 1) == [5]
    assert writes(SamplingParams(seed=1, logit_bias={7: 100.0, 12: 100.0}), logits, 5) == [7] * 5


def test_a_rows_bias_is_its_own() -> None:
    sampler = new_sampler(slots=2)
    sampler.admit(0, SamplingParams(temperature=0), PROMPT)
    sampler.admit(1, SamplingParams(temperature=0, logit_bias={2: 1.0}), PROMPT)
    assert [one.token for one in sampler.sample(torch.zeros(2, 10), [0, 1])] == [0, 2]
    assert [one.token for one in sampler.sample(torch.zeros(1, 10), [0])] == [0]


def test_no_end_token_before_min_tokens_or_with_ignore_eos() -> None:
    logits = torch.zeros(10)
    logits[2], logits[3], logits[4] = 3.0, 2.0, 1.0
    ends = {"eos_ids": frozenset({2, 3, 70})}
    assert writes(SamplingParams(temperature=0, min_tokens=2), logits, 3, **ends) == [4, 4, 2]
    assert writes(SamplingParams(temperature=0, ignore_eos=True), logits, 3, **ends) == [4, 4, 4]
    assert writes(SamplingParams(temperature=0), logits, 1, **ends) == [2]


def test_log_probabilities_are_those_of_the_model_itself() -> None:
    logits = torch.randn(2, VOCABULARY, generator=torch.Generator().manual_seed(4)) * 3
    expected = logits.log_softmax(-1)
    sampler = new_sampler(slots=2)
    changed = {"temperature": 0, "logit_bias": {7: 100.0}, "repeat_penalty": 1.5}
    sampler.admit(0, SamplingParams(logprobs=20, **changed), PROMPT)
    sampler.admit(1, SamplingParams(logprobs=0, seed=1), PROMPT)
    first, second = sampler.sample(logits.clone(), [0, 1])
    assert first.token == 7
    assert first.logprob == pytest.approx(float(expected[0, 7]), abs=1e-5)
    best = expected[0].topk(20)
    assert [token for token, _ in first.top] == best.indices.tolist()
    assert [worth for _, worth in first.top] == pytest.approx(best.values.tolist(), abs=1e-5)
    assert second.logprob == pytest.approx(float(expected[1, second.token]), abs=1e-5)
    assert second.top == ()


def test_log_probabilities_are_returned_only_on_request() -> None:
    sampler = new_sampler(slots=2)
    sampler.admit(0, SamplingParams(temperature=0), PROMPT)
    sampler.admit(1, SamplingParams(temperature=0, logprobs=1), PROMPT)
    silent, told = sampler.sample(torch.zeros(2, 8), [0, 1])
    assert (silent.logprob, silent.top) == (None, ())
    assert told.logprob == pytest.approx(log(1 / 8))
    assert len(told.top) == 1


def test_a_new_sequence_in_a_slot_has_an_empty_history() -> None:
    logits = torch.zeros(1, 10)
    logits[0, 4] = 3.0
    logits[0, 6] = 2.0
    sampler = new_sampler()
    for _ in range(2):
        sampler.admit(0, SamplingParams(temperature=0, repeat_penalty=2.0), [1, 2])
        assert sampler.sample(logits.clone(), [0])[0].token == 4
        sampler.release(0)


def test_a_rows_draw_does_not_depend_on_its_neighbours() -> None:
    logits = torch.randn(len(CASES), VOCABULARY, generator=torch.Generator().manual_seed(2))

    def tokens(watched: int, slots: list[int]) -> list[int]:
        sampler = new_sampler(slots=len(CASES))
        for slot in slots:
            sampler.admit(slot, msgspec.structs.replace(CASES[slot], seed=11), PROMPT)
        return [sampler.sample(logits[slots], slots)[slots.index(watched)].token for _ in range(50)]

    everyone = list(range(len(CASES)))
    for watched in everyone:
        assert tokens(watched, [watched]) == tokens(watched, everyone), CASES[watched]


@pytest.mark.parametrize("target", [0, 1])
def test_a_preempted_request_resumes_in_any_slot_unchanged(target: int) -> None:
    logits = torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(5))
    params = SamplingParams(seed=3, top_p=0.9, repeat_penalty=1.3, frequency_penalty=0.5, min_tokens=8)
    known = {"slots": 2, "eos_ids": frozenset({int(logits.argmax())})}
    undisturbed = writes(params, logits, 40, **known)
    sampler = new_sampler(**known)
    sampler.admit(0, params, PROMPT)
    tokens = [sampler.sample(logits[None].clone(), [0])[0].token for _ in range(5)]
    preempted = sampler.preempt(0)
    sampler.admit(0, SamplingParams(seed=9, repeat_penalty=1.9), [8, 7])
    sampler.sample(logits[None].clone(), [0])
    sampler.resume(target, preempted)
    tokens += [sampler.sample(logits[None].clone(), [target])[0].token for _ in range(35)]
    assert tokens == undisturbed


def test_a_full_history_ignores_further_tokens() -> None:
    logits = torch.linspace(1, 0.9, 10)
    wrote = writes(SamplingParams(temperature=0, repeat_penalty=2.0), logits, 4, [9, 8], context_size=4)
    assert wrote == [0, 1, 2, 2]


@pytest.mark.parametrize("tiny", [1e-3, 1e-30, 1e-300])
def test_tiny_temperatures_and_penalties_stay_finite(tiny: float) -> None:
    logits = torch.randn(1, VOCABULARY, generator=torch.Generator().manual_seed(3)) * 10
    logits = logits[0]
    assert writes(SamplingParams(temperature=tiny, top_p=0.9), logits, 1) == [int(logits.argmax())]
    assert writes(SamplingParams(repeat_penalty=tiny), logits.abs(), 1)[0] in PROMPT


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0),
        SamplingParams(seed=5, temperature=0.8, top_k=4, top_p=0.9, logprobs=2),
        SamplingParams(seed=5, repeat_penalty=1.3),
    ],
)
def test_a_row_that_is_not_finite_is_reported_and_its_neighbours_sample_as_before(
    broken: float, params: SamplingParams
) -> None:
    logits = torch.randn(3, VOCABULARY, generator=torch.Generator().manual_seed(1))

    def sampled(rows: Tensor) -> list[SampledToken]:
        sampler = Sampler(slots=3, context_size=64, eos_ids=frozenset())
        for slot in range(3):
            sampler.admit(slot, params, [1])
        return sampler.sample(rows, [0, 1, 2])

    whole = sampled(logits.clone())
    logits[1, 3] = broken
    partly = sampled(logits)
    assert [one.finite for one in partly] == [True, False, True]
    assert (partly[0], partly[2]) == (whole[0], whole[2])


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
        (SamplingParams(stop=("a",) * 17), "stop"),
        (SamplingParams(stop=("a" * 257,)), "stop"),
        (SamplingParams(top_k=1001), "top_k"),
        (SamplingParams(min_tokens=-1), "min_tokens"),
        (SamplingParams(min_tokens=5, max_tokens=4), "min_tokens"),
        (SamplingParams(min_p=1.01), "min_p"),
        (SamplingParams(presence_penalty=2.01), "presence_penalty"),
        (SamplingParams(frequency_penalty=float("nan")), "frequency_penalty"),
        (SamplingParams(logprobs=21), "logprobs"),
        (SamplingParams(logprobs=-1), "logprobs"),
        (SamplingParams(logit_bias={VOCABULARY: 1.0}), "logit_bias"),
        (SamplingParams(logit_bias={-1: 1.0}), "logit_bias"),
        (SamplingParams(logit_bias={3: 101.0}), "logit_bias"),
        (SamplingParams(logit_bias={3: float("nan")}), "logit_bias"),
        (SamplingParams(logit_bias=dict.fromkeys(range(1025), 1.0)), "logit_bias"),
    ],
)
def test_i4_a_parameter_out_of_range_is_named(params: SamplingParams, named: str) -> None:
    with pytest.raises(InvalidRequest, match=f"`{named}` must be"):
        check_sampling(params, vocabulary_size=VOCABULARY)


def test_i4_parameters_at_their_bounds_are_accepted() -> None:
    lowest = {"min_tokens": 0, "temperature": 0, "top_p": 0, "top_k": 0, "min_p": 0, "logprobs": 0, "max_tokens": 1}
    highest = {"temperature": 2, "top_p": 1, "top_k": 1000, "min_p": 1, "repeat_penalty": 2, "logprobs": 20}
    signed = {"presence_penalty": 2, "frequency_penalty": 2, "logit_bias": {0: 100, VOCABULARY - 1: -100}}
    for params in (
        lowest,
        highest | signed,
        {"presence_penalty": -2, "frequency_penalty": -2, "stop": ("x" * 256,) * 16},
    ):
        check_sampling(SamplingParams(**params), vocabulary_size=VOCABULARY)
