"""Reasoning: separated from the text in pieces of any size, and switched by options of the chat template."""

from collections.abc import Sequence
from typing import Any

import pytest
from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast

from inference.engine.errors import InvalidRequest
from inference.engine.outputs import GenerationOutput
from inference.engine.requests import GenerationRequest, Message, Tool
from inference.engine.sampling import ConstraintKind, OutputConstraint, SamplingParams
from inference.engine.text.reasoning import ReasoningParser
from inference.engine.text.tokenizer import Tokenizer
from tests.inference.engine.engine_runner import RememberingDecoder, running_engine
from tests.inference.engine.tiny_models import byte_tokenizer

USER = Message("user", "Why?")
THINKING = (
    "{% for m in messages %}{{ m.content }}{% endfor %}"
    "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% else %}<think>{% endif %}"
    "{{ reasoning_effort | default('') }}{{ eos_token }}"
)


def separate(pieces: Sequence[str], *, is_open: bool) -> tuple[str, str]:
    parser = ReasoningParser(is_open=is_open)
    parts = [*map(parser.push, pieces), parser.finish()]
    return "".join(content for content, _ in parts), "".join(reasoning for _, reasoning in parts)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize(
    ("text", "is_open", "content", "reasoning"),
    [
        ("<think>\nSo  it <is>.\n</think>\n\nYes <b>.\n", False, "Yes <b>.\n", "So  it <is>."),
        ("  <think>a</think>b", False, "b", "a"),
        ("So it is.</think>Yes.", True, "Yes.", "So it is."),
        ("\n So\n</think>\n", True, "", "So"),
        ("<think></think>Yes", False, "Yes", ""),
        ("Yes <think>no</think>", False, "Yes <think>no</think>", ""),
        (" Yes</think>", False, " Yes</think>", ""),
        ("<thin", False, "<thin", ""),
        ("<think>cut </thi", False, "", "cut </thi"),
        ("", True, "", ""),
    ],
)
def test_reasoning_is_separated_in_pieces_of_any_size(
    text: str, is_open: bool, content: str, reasoning: str, size: int
) -> None:
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    assert separate(pieces, is_open=is_open) == (content, reasoning)


def test_content_is_not_held_back() -> None:
    parser = ReasoningParser(is_open=False)
    assert [parser.push(piece) for piece in ("<think>so", "</think>", " Y", "e", "s")] == [
        ("", "so"),
        ("", ""),
        ("Y", ""),
        ("e", ""),
        ("s", ""),
    ]


def tokenizer_with(template: str, *special: str) -> PreTrainedTokenizerFast:
    source = byte_tokenizer()
    source.add_tokens([AddedToken(token, special=True) for token in special], special_tokens=True)
    source.chat_template = template
    return source


def test_thinking_is_switched_by_the_templates_option() -> None:
    tokenizer = Tokenizer(tokenizer_with(THINKING))

    def prompt(**fields: Any) -> str:
        return tokenizer.decode(tokenizer.encode_chat((USER,), **fields))

    assert prompt() == prompt(thinking=True) == "Why?<think>"
    assert prompt(thinking=False) == prompt(options={"enable_thinking": False}) == "Why?<think></think>"
    assert prompt(options={"reasoning_effort": "low"}) == "Why?<think>low"
    assert prompt(thinking=False, options={"enable_thinking": True}) == "Why?<think>"


def test_m3_an_option_that_the_template_lacks_is_rejected_and_its_own_variables_stay() -> None:
    tokenizer = Tokenizer(tokenizer_with(THINKING))
    for name in ("language", "messages", "tools", "chat_template", "add_generation_prompt"):
        with pytest.raises(InvalidRequest, match=f"`{name}` is not an option of this model's chat template"):
            tokenizer.encode_chat((USER,), options={name: "x"})
    plain = tokenizer.encode_chat((USER,))
    assert tokenizer.encode_chat((USER,), options={"eos_token": "y"}) == plain


def generated(source: PreTrainedTokenizerFast, request: GenerationRequest) -> list[GenerationOutput]:
    with running_engine(RememberingDecoder(len(source)), source, context_size=1024) as (engine, collector):
        engine.submit(request)
        return collector.outputs(request.request_id)


def ask(name: str, **fields: Any) -> GenerationRequest:
    sampling = SamplingParams(
        seed=5, max_tokens=40, ignore_eos=True, logit_bias=fields.pop("bias", {}), logprobs=fields.pop("logprobs", None)
    )
    return GenerationRequest(request_id=name, messages=(USER,), sampling=sampling, separates_reasoning=True, **fields)


@pytest.mark.parametrize("is_special", [False, True])
def test_a_generation_separates_reasoning_that_the_prompt_opened(is_special: bool) -> None:
    source = tokenizer_with(THINKING.replace("{{ eos_token }}", ""), *["<think>", "</think>"] * is_special)
    outputs = generated(source, ask("open"))
    assert "".join(output.reasoning for output in outputs)
    assert not "".join(output.text for output in outputs)
    assert outputs[-1].usage is not None
    assert outputs[-1].usage.reasoning_tokens == 40
    answered = generated(source, ask("closed", thinking=False))
    assert "".join(output.text for output in answered)
    assert not "".join(output.reasoning for output in answered)
    assert answered[-1].usage is not None
    assert answered[-1].usage.reasoning_tokens == 0


def test_a_control_token_ends_the_reasoning() -> None:
    source = tokenizer_with(THINKING.replace("{{ eos_token }}", ""), "<think>", "</think>")
    end = source.convert_tokens_to_ids("</think>")
    outputs = generated(source, ask("ended", bias={end: 3.5}, logprobs=0))
    text, reasoning = ("".join(getattr(output, name) for output in outputs) for name in ("text", "reasoning"))
    assert text
    assert reasoning
    assert "think>" not in reasoning
    tokens = [logprob.token for output in outputs for logprob in output.logprobs]
    assert outputs[-1].usage is not None
    assert outputs[-1].usage.reasoning_tokens == tokens.index(end) + 1 < len(tokens) == 40


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": (Tool("now"),), "tool_choice": "required"},
        {"constraint": OutputConstraint(ConstraintKind.REGEX, "[a-z]{9}")},
    ],
    ids=["a required call", "a constraint"],
)
def test_a_constraint_leaves_no_room_for_reasoning(fields: dict[str, Any]) -> None:
    source = tokenizer_with(THINKING)
    request = ask("bound")
    if "constraint" in fields:
        sampling = SamplingParams(seed=5, max_tokens=40, constraint=fields["constraint"])
        request = GenerationRequest(request_id="b", messages=(USER,), sampling=sampling, separates_reasoning=True)
    else:
        request = ask("b", **fields)
    outputs = generated(source, request)
    assert not "".join(output.reasoning for output in outputs)
    assert "".join(output.text for output in outputs) or any(output.tool_calls for output in outputs)
