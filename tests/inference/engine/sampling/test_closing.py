"""JSON that a model ends just before its limit of tokens stays as the model writes it, and other JSON still ends."""

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
import torch

from inference.engine.sampling import ConstraintKind, OutputConstraint
from inference.engine.sampling import closing as closing_module
from inference.engine.sampling.grammars import GrammarCompiler, TokenMasks
from inference.engine.text.tokenizer import Tokenizer
from tests.inference.engine.tiny_models import END, letter_tokenizer

LETTERS = letter_tokenizer()  # one token a character
GRAMMARS = GrammarCompiler(tokenizer_json=Tokenizer(LETTERS).to_json, eos_ids=frozenset({END}))


def fields(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    required = list(properties) if required is None else required
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def written(schema: dict[str, Any], max_tokens: int, wanted: Callable[[str], str]) -> str:
    """Return the text of a model whose likeliest character after a text is `wanted(text)`.

    It fails if the constraint does, or the text does not end within the limit.
    """
    constraint = GRAMMARS.compile(OutputConstraint(ConstraintKind.JSON_SCHEMA, json.dumps(schema)), max_tokens)
    text = ""
    for _ in range(max_tokens):
        scores = torch.zeros(len(LETTERS))
        scores[LETTERS.convert_tokens_to_ids(wanted(text))] = 20.0
        allowed = TokenMasks().allowed([constraint], len(LETTERS))[0]
        constraint.lean(scores, allowed)
        token = int(scores.masked_fill(~allowed, -torch.inf).argmax())
        constraint.accept(token)
        assert constraint.failure is None, text
        if token == END:
            return text
        text += LETTERS.convert_ids_to_tokens(token)
    raise AssertionError(f"no end: {text}")


PRODUCT = fields(
    id={"type": "integer"},
    price={"type": "number"},
    in_stock={"type": "boolean"},
    color={"enum": ["red", "green"]},
    parts={"type": "array", "items": {"type": "integer"}, "minItems": 2},
    maker={"anyOf": [fields(name={"type": "integer"}), {"type": "null"}]},
)


@pytest.mark.parametrize("spare", [6, 10, 20, 40, 80])
def test_numbers_and_values_stay_as_the_model_writes_them(spare: int) -> None:
    text = '{"id":4210987,"price":1299.95,"in_stock":true,"color":"green","parts":[120,345],"maker":{"name":12}}'
    model = text + "~"
    assert written(PRODUCT, len(text) + 1 + spare, lambda so_far: model[len(so_far)]) == text


def test_no_optional_member_is_begun_near_the_limit() -> None:
    schema = fields(["sku", "price"], sku={"const": 80 * "x"}, price={"type": "integer"}, note={"type": "string"})
    text = f'{{"sku":"{80 * "x"}","price":1299'
    model = f'{text},"note":"{100 * "y"}'
    assert written(schema, len(text) + 20, lambda so_far: model[len(so_far)]) == text + "}"


@pytest.mark.parametrize("members", [30, 3])
def test_a_value_is_the_models_only_if_it_still_ends(members: int) -> None:
    """With 30 members the object takes more tokens than there are."""
    large = fields(**{f"m{number}": {"type": "integer"} for number in range(members)})
    schema = fields(sku={"const": 150 * "x"}, value={"anyOf": [large, {"type": "null"}]})
    model = f'{{"sku":"{150 * "x"}","value":{{'
    text = written(schema, 230, lambda so_far: model[len(so_far)] if len(so_far) < len(model) else "7")
    jsonschema.validate(json.loads(text), schema)
    assert (json.loads(text)["value"] is None) == (members == 30)


@pytest.mark.parametrize("pattern", ["^[a-z]{3,10}$", "^([a-z]{4})*$", "^[a-z]{2}[n-z]{8}$"])
@pytest.mark.parametrize("max_tokens", [20, 30, 100])
def test_a_way_that_is_not_allowed_any_more_is_found_again(pattern: str, max_tokens: int) -> None:
    schema = {"type": "string", "pattern": pattern}
    text = written(schema, max_tokens, lambda so_far: "z" if so_far else '"')
    jsonschema.validate(json.loads(text), schema)


def test_a_long_way_is_sought_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each search takes the time of many tokens."""
    searched: list[int] = []
    way = closing_module.ClosingTokens.way

    def counted(self: closing_module.ClosingTokens, matcher: Any, limit: int) -> list[int] | None:
        searched.append(limit)
        return way(self, matcher, limit)

    monkeypatch.setattr(closing_module.ClosingTokens, "way", counted)
    schema = fields(**{f"m{number}": {"type": "integer"} for number in range(80)})
    text = "{" + ",".join(f'"m{number}":7' for number in range(80)) + "}~"
    assert len(written(schema, 2000, lambda so_far: text[len(so_far)])) == len(text) - 1
    assert len(searched) < 20
