"""Declared sampling parameters: every one changes what the engine generates, and bounds hold everywhere."""

import math
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import pytest
import torch
from torch import Tensor

from inference.engine.errors import InvalidRequest
from inference.engine.models import TokenSpan
from inference.engine.requests import REQUEST_PARAMETERS, GenerationRequest
from inference.engine.sampling import SAMPLING_PARAMETERS, SamplingParams, check_sampling
from tests.inference.engine.engine_runner import running_engine
from tests.inference.engine.tiny_models import END, byte_tokenizer

TOKENIZER = byte_tokenizer()
SEEDS = range(16)
BASE = SamplingParams(max_tokens=64)
END_LOGIT = -1.5  # about 3 % of the probability: some texts end early and some reach max_tokens


class ZipfDecoder:
    """A decoder with the same logits everywhere: token probabilities fall with their rank, as in natural text."""

    threads = 0

    def __init__(self) -> None:
        first = [*TOKENIZER.encode("\n"), 100]
        ranked = [*first, *(token for token in range(len(TOKENIZER)) if token not in first)]
        self._row = torch.empty(len(TOKENIZER))
        self._row[torch.tensor(ranked)] = -torch.arange(1.0, len(ranked) + 1).log()
        self._row[END] = END_LOGIT

    def run(self, spans: Sequence[TokenSpan]) -> Tensor:
        return self._row.expand(sum(span.rows for span in spans), -1).clone()

    def copy(self, source: int, target: int, length: int) -> None: ...

    def clear(self, slot: int | None = None, start: int = 0) -> None: ...


def generated(base: SamplingParams, **changes: Any) -> list[list[tuple[Any, ...]]]:
    """Return everything that clients see of one generation per seed."""
    with running_engine(ZipfDecoder(), TOKENIZER) as (engine, collector):
        for seed in SEEDS:
            sampling = msgspec.structs.replace(base, **({"seed": seed} | changes))
            engine.submit(GenerationRequest(request_id=str(seed), prompt="x\ny", sampling=sampling))
        return [
            [(one.text, one.index, one.logprobs, one.finish_reason) for one in collector.outputs(str(seed))]
            for seed in SEEDS
        ]


@pytest.fixture(scope="module")
def base_outputs() -> list[list[tuple[Any, ...]]]:
    outputs = generated(BASE)
    assert outputs == generated(BASE), "the same seeds give the same outputs"
    return outputs


@pytest.mark.parametrize("name", SAMPLING_PARAMETERS)
def test_every_declared_parameter_changes_the_output(name: str, base_outputs: list[list[tuple[Any, ...]]]) -> None:
    """A parameter that is declared and ignored fails here: its example must give other outputs than the base."""
    assert generated(BASE, **{name: SAMPLING_PARAMETERS[name].example}) != base_outputs


@pytest.mark.parametrize("parameters", [SAMPLING_PARAMETERS, REQUEST_PARAMETERS])
def test_defaults_and_examples_are_within_bounds(parameters: dict[str, Any]) -> None:
    for parameter in parameters.values():
        assert parameter.allows(parameter.default), parameter.name
        assert parameter.allows(parameter.example), parameter.name
        assert parameter.description.endswith("."), parameter.name
        assert parameter.example != parameter.default, parameter.name


def test_every_field_of_sampling_params_is_declared() -> None:
    assert list(SAMPLING_PARAMETERS) == [field.name for field in msgspec.structs.fields(SamplingParams)]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (SamplingParams(temperature=2.5), "`temperature` must be a number from 0 to 2, not 2.5."),
        (SamplingParams(temperature=math.nan), "`temperature` must be a number from 0 to 2, not nan."),
        (SamplingParams(repeat_penalty=0), "`repeat_penalty` must be a number above 0 and at most 2, not 0."),
        (SamplingParams(top_k=-1), "`top_k` must be an integer from 0 to 1000, not -1."),
        (SamplingParams(stop=("",)), "`stop` must be at most 16 strings of 1 to 256 characters."),
        (
            SamplingParams(logit_bias={1: 101}),
            "`logit_bias` must be at most 1024 token ids with numbers from -100 to 100.",
        ),
        (SamplingParams(logit_bias={320: 1}), "`logit_bias` must be keyed by token ids from 0 to 319, not 320."),
        (SamplingParams(min_tokens=3, max_tokens=2), "`min_tokens` must be at most `max_tokens` (2), not 3."),
    ],
)
def test_an_error_names_the_parameter_and_what_was_expected(params: SamplingParams, message: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        check_sampling(params, vocabulary_size=320)
    assert raised.value.message == message


def test_wire_structs_enforce_the_declared_bounds() -> None:
    stop_parameter = SAMPLING_PARAMETERS["stop"]

    class Body(msgspec.Struct):
        temperature: Annotated[float, SAMPLING_PARAMETERS["temperature"].meta()] = 1.0
        stop: Annotated[list[Annotated[str, stop_parameter.item_meta()]], stop_parameter.meta()] = []

    assert msgspec.convert({"temperature": 2, "stop": ["\n"]}, Body).temperature == 2
    for wrong in ({"temperature": 2.1}, {"stop": [""]}, {"stop": ["x"] * 17}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, Body)
    schema = msgspec.json.schema(Body)["$defs"]["Body"]["properties"]["temperature"]
    assert (schema["minimum"], schema["maximum"], schema["examples"]) == (0, 2, [0.7])
    assert schema["description"] == SAMPLING_PARAMETERS["temperature"].description
