"""Tool calls: the model's syntax, valid arguments, and streaming separation from text."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import jsonschema
import msgspec
import pytest
from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast

from inference.engine.errors import InvalidRequest
from inference.engine.outputs import FinishReason, GenerationOutput, ToolCallDelta
from inference.engine.requests import GenerationRequest, Message, Tool, ToolCall
from inference.engine.sampling import ConstraintKind, OutputConstraint, SamplingParams
from inference.engine.scheduling.engine import Engine
from inference.engine.text.tokenizer import Tokenizer
from inference.engine.text.tool_calls import LLAMA, MISTRAL, TAGS, ToolSyntax, close_schema, detect_tool_syntax
from inference.engine.text.tool_parser import ToolParser
from tests.inference.engine.engine_runner import Collector, RememberingDecoder, running_engine
from tests.inference.engine.tiny_models import END, TEMPLATE, byte_tokenizer

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 6}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city"],
    "additionalProperties": False,
}
NOW = Tool("now")
WEATHER = Tool("weather", "Tells the weather", CITY)
TOOLS = (WEATHER, NOW)
USER = Message("user", "what is it like?")
SYSTEM = "{% for m in messages %}<|{{ 'user' if m.role == 'system' else m.role }}|>{{ m.content }}<|end|>{% endfor %}"
HERMES = (
    "{% if tools %}{% for tool in tools %}{{ tool | tojson }}{% endfor %}<tool_call></tool_call>{% endif %}"
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
    "{% for call in m.tool_calls %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|end|>{% endfor %}"
)
BRACKETS = "{% if tools %}{{ tools | tojson }}[TOOL_CALLS]{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}"
META = (
    '{% if tools %}{{ tools | tojson }}{"name": NAME, "parameters": {}}<|python_tag|>{% endif %}'
    "{{ messages[-1].content }}"
)
FORMS = {"tags": TAGS, "mistral": MISTRAL, "llama": LLAMA}
TEMPLATES = {"tags": HERMES, "mistral": BRACKETS, "llama": META, "own": TEMPLATE}


def tokenizer_with(template: str, *special: str) -> PreTrainedTokenizerFast:
    source = byte_tokenizer()
    source.add_tokens([AddedToken(token, special=True) for token in special], special_tokens=True)
    source.chat_template = template
    return source


@pytest.fixture(scope="module", params=["tags", "mistral", "llama", "own", "mistral with a control token"])
def running(request: pytest.FixtureRequest) -> Iterator[tuple[Engine, Collector]]:
    name, _, control = request.param.partition(" with ")
    source = tokenizer_with(TEMPLATES[name], *["[TOOL_CALLS]"] * bool(control))
    with running_engine(RememberingDecoder(len(source)), source, context_size=4096) as engine:
        yield engine


def ask(name: str, choice: str, tools: tuple[Tool, ...] = TOOLS, **sampling: Any) -> GenerationRequest:
    params = SamplingParams(**{"seed": 2, "max_tokens": 900} | sampling)
    return GenerationRequest(request_id=name, messages=(USER,), tools=tools, tool_choice=choice, sampling=params)


def joined(deltas: Sequence[ToolCallDelta]) -> list[ToolCall]:
    """Return the calls of their pieces, as a client joins them."""
    calls: dict[int, list[str]] = defaultdict(lambda: ["", "", ""])
    for delta in deltas:
        assert (delta.id is None) == (delta.name is None) == (delta.index in calls)
        calls[delta.index][0] += delta.id or ""
        calls[delta.index][1] += delta.name or ""
        calls[delta.index][2] += delta.arguments
    assert list(calls) == list(range(len(calls)))
    return [ToolCall(*call) for call in calls.values()]


def result(outputs: list[GenerationOutput]) -> tuple[str, list[ToolCall], FinishReason | None]:
    text = "".join(output.text for output in outputs)
    return text, joined([delta for output in outputs for delta in output.tool_calls]), outputs[-1].finish_reason


def assert_valid(call: ToolCall) -> None:
    arguments = json.loads(call.arguments)
    assert re.fullmatch("call_[0-9a-f]{24}", call.id)
    if call.name == "weather":
        jsonschema.validate(arguments, CITY)
    else:
        assert (call.name, arguments) == ("now", {})


def test_schemas_are_closed_unless_they_set_or_combine_properties() -> None:
    colour = {"type": "object", "properties": {"colour": {"enum": ["red"]}}}
    nested = {"properties": {"paint": {"anyOf": [colour, {"type": "null"}]}, "all": {"type": "array", "items": colour}}}
    made_shut = colour | {"additionalProperties": False}
    assert close_schema(colour) == made_shut
    assert close_schema(nested) == {
        "properties": {
            "paint": {"anyOf": [made_shut, {"type": "null"}]},
            "all": {"type": "array", "items": made_shut},
        },
        "additionalProperties": False,
    }
    by_name = {"$defs": {"Colour": colour}, "type": "array", "items": {"$ref": "#/$defs/Colour"}}
    assert close_schema(by_name)["$defs"]["Colour"] == made_shut
    for open_one in (
        {"type": "object"},
        colour | {"additionalProperties": {"type": "integer"}},
        colour | {"patternProperties": {"^x": {}}},
        {"allOf": [colour, {"properties": {"days": {"type": "integer"}}}]},
        colour | {"anyOf": [{"properties": {"days": {"type": "integer"}}}, {"required": ["colour"]}]},
        {"enum": [{"properties": {"a": 1}}]},
    ):
        assert close_schema(open_one) == open_one


@pytest.mark.parametrize("seed", range(4))
def test_a_named_tool_is_called_once_with_valid_arguments(running: tuple[Engine, Collector], seed: int) -> None:
    engine, collector = running
    engine.submit(ask(f"named {seed}", "weather", seed=seed))
    text, calls, reason = result(collector.outputs(f"named {seed}"))
    assert (text, reason) == ("", FinishReason.TOOL_CALLS)
    assert [call.name for call in calls] == ["weather"]
    assert_valid(calls[0])


@pytest.mark.parametrize("seed", range(4))
def test_required_calls_at_least_one(running: tuple[Engine, Collector], seed: int) -> None:
    engine, collector = running
    engine.submit(ask(f"required {seed}", "required", seed=seed, logit_bias={END: 50.0 + seed}))
    text, calls, reason = result(collector.outputs(f"required {seed}"))
    assert (text, reason) == ("", FinishReason.TOOL_CALLS)
    assert calls
    for call in calls:
        assert_valid(call)


def test_auto_may_generate_text_without_calls(running: tuple[Engine, Collector]) -> None:
    engine, collector = running
    engine.submit(ask("auto", "auto", max_tokens=30))
    text, calls, reason = result(collector.outputs("auto"))
    assert text
    assert (calls, reason) == ([], FinishReason.LENGTH)


def test_none_calls_nothing(running: tuple[Engine, Collector]) -> None:
    engine, collector = running
    engine.submit(ask("none", "none", max_tokens=10))
    assert result(collector.outputs("none"))[1:] == ([], FinishReason.LENGTH)


def test_auto_is_constrained_after_the_marker_of_a_call() -> None:
    source = tokenizer_with(HERMES, "<tool_call>")
    opened, letter = source.convert_tokens_to_ids(["<tool_call>", "a"])

    class Opening(RememberingDecoder):
        def row(self, ids: list[int]) -> Any:
            row = super().row(ids)
            row[opened] = 30.0 if len(ids) == self.at else -50.0
            row[letter] = 30.0 if len(ids) < self.at else 0.0
            row[END] = 30.0 if len(ids) > self.at > 0 else -50.0
            return row

        at = -1

    decoder = Opening(len(source))
    with running_engine(decoder, source, context_size=2048) as (engine, collector):
        decoder.at = engine.submit(ask("probe", "auto", max_tokens=1)).prompt_tokens + 4
        engine.submit(ask("auto", "auto"))
        text, calls, reason = result(collector.outputs("auto"))
        assert (text, reason) == ("aaaa", FinishReason.TOOL_CALLS)
        for call in calls:
            assert_valid(call)


def test_letters_that_spell_a_call_cannot_bypass_the_grammar() -> None:
    source = tokenizer_with(BRACKETS, "[TOOL_CALLS]")
    forged = [
        token for letter in '[TOOL_CALLS] [{"name": "forged", "arguments": {}}]' for token in source.encode(letter)
    ]

    class Forging(RememberingDecoder):
        def row(self, ids: list[int]) -> Any:
            row = super().row(ids)
            row[source.convert_tokens_to_ids("[TOOL_CALLS]")] = -90.0
            if len(ids) >= self.begin:
                row[forged[min(len(ids) - self.begin, len(forged) - 1)]] = 90.0
            return row

        begin = 10**9

    decoder = Forging(len(source))
    with running_engine(decoder, source, context_size=2048) as (engine, collector):
        decoder.begin = engine.submit(ask("probe", "auto", max_tokens=1)).prompt_tokens
        engine.submit(ask("auto", "auto", max_tokens=len(forged)))
        text, calls, _ = result(collector.outputs("auto"))
    assert calls == []
    assert text.startswith("[TOOL_CALLS] ")
    assert not text.startswith("[TOOL_CALLS] [")


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_the_parser_gives_the_same_calls_for_any_pieces(name: str, size: int) -> None:
    form = FORMS[name]
    wanted = [("weather", '{"city": "a}\\"{]", "days": 3}')]
    if form.between is not None:
        wanted.append(("now", "{}"))
    said = "let me see <tool_ [TOOL" if form.marker else ""
    calls = [f"{form.opening(tool)}{arguments}}}" for tool, arguments in wanted]
    whole = said + form.begin + (form.between or "").join(calls) + form.end
    parser = ToolParser(form)
    text, deltas = "", []
    for start in range(0, len(whole), size):
        piece, some = parser.push(whole[start : start + size])
        text += piece
        deltas += some
    text += parser.finish(is_cut=False)
    assert text == said
    assert [(call.name, call.arguments) for call in joined(deltas)] == wanted
    assert parser.called


@pytest.mark.parametrize("form", FORMS.values())
@pytest.mark.parametrize("text", ["plain", "a <tool_call> that is none", '[TOOL_CALLS] {"name"', 'so {"name": "x"', ""])
def test_text_without_calls_is_returned_whole(form: ToolSyntax, text: str) -> None:
    parser = ToolParser(form)
    said = "".join(parser.push(letter)[0] for letter in text)
    assert said + parser.finish(is_cut=False) == text
    assert not parser.called


@pytest.mark.parametrize("form", FORMS.values())
def test_a_call_that_never_gets_its_arguments_is_text_unless_a_limit_cut_it(form: ToolSyntax) -> None:
    text = f'{form.begin}{{"name": "weather"}}{form.end}'
    for is_cut, expected in ((False, text), (True, "")):
        parser = ToolParser(form)
        assert "".join(parser.push(letter)[0] for letter in text) + parser.finish(is_cut=is_cut) == expected


def test_a_tool_call_cut_by_max_tokens_is_returned_in_part() -> None:
    engine_tokenizer = tokenizer_with(HERMES)
    with running_engine(RememberingDecoder(len(engine_tokenizer)), engine_tokenizer) as (engine, collector):
        engine.submit(ask("cut", "weather", max_tokens=45))
        text, calls, reason = result(collector.outputs("cut"))
        assert (text, reason) == ("", FinishReason.LENGTH)
        assert [call.name for call in calls] == ["weather"]
        assert not calls[0].arguments.endswith("}")


@pytest.mark.parametrize(
    ("template", "form"),
    [
        (HERMES, TAGS),
        (BRACKETS, MISTRAL),
        (META, LLAMA),
        (TEMPLATE, None),
        ("{{ tools }}<tool_call><function=x>", None),
        ("{{ tools }}[TOOL_CALLS]x[ARGS]{}", None),
        ("<tool_call>", None),
    ],
)
def test_the_tool_syntax_is_the_templates(template: str, form: ToolSyntax | None) -> None:
    assert detect_tool_syntax(template) is form


CONVERSATION = (
    USER,
    Message("assistant", "", tool_calls=(ToolCall("c1", "weather", '{"city": "Oslo"}'),)),
    Message("tool", "rain", tool_call_id="c1"),
)


def test_tool_calls_and_results_use_a_template_that_supports_them() -> None:
    tokenizer = Tokenizer(tokenizer_with(HERMES))
    text = tokenizer.decode(tokenizer.encode_chat(CONVERSATION, TOOLS))
    assert text.startswith('{"type": "function", "function": {"name": "weather", "description": "Tells the weather"')
    assert text.endswith('<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}</tool_call><|tool|>rain')


@pytest.mark.parametrize("template", [TEMPLATE, SYSTEM])
def test_a_template_without_tools_gets_them_as_text(template: str) -> None:
    tokenizer = Tokenizer(tokenizer_with(template))
    ids = tokenizer.encode_chat(CONVERSATION, TOOLS)
    text = tokenizer.decode(ids)
    assert text.startswith("You may call these functions:\n")
    assert '"name": "weather", "description": "Tells the weather"' in text
    assert '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>' in text
    assert "<tool_response>\nrain\n</tool_response>" in text
    spoken = [(Message("system", "be kind"), USER), (USER,)][template == TEMPLATE]
    assert "what is it like?" in tokenizer.decode(tokenizer.encode_chat(spoken, TOOLS))


EACH_ARGUMENT = HERMES.replace("call.function | tojson", "call.function.arguments.items() | list")


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        (TEMPLATE, '{"name": "now", "arguments": %s}'),
        (HERMES, '<tool_call>{"name": "now", "arguments": %s}</tool_call>'),
        (EACH_ARGUMENT, "<tool_call>[('arguments', %s)]</tool_call>"),
    ],
    ids=["no tools", "arguments as they are", "arguments one by one"],
)
@pytest.mark.parametrize("arguments", ['{"city": "Os', "[1]", "Oslo, please", "[" * 2000], ids=range(4))
def test_any_text_is_accepted_as_the_arguments_of_an_earlier_call(template: str, shown: str, arguments: str) -> None:
    tokenizer = Tokenizer(tokenizer_with(template))
    call = Message("assistant", "", tool_calls=(ToolCall("c1", "now", arguments),))

    text = tokenizer.decode(tokenizer.encode_chat((USER, call, Message("tool", "rain", tool_call_id="c1")), TOOLS))

    quoted = {TEMPLATE: arguments, HERMES: json.dumps(arguments), EACH_ARGUMENT: repr(arguments)}[template]
    assert shown % quoted in text


@pytest.mark.parametrize("syntax", ["tags", "mistral"])
def test_a_choice_has_one_call_without_parallel_tool_calls(syntax: str) -> None:
    source = tokenizer_with(TEMPLATES[syntax])
    with running_engine(RememberingDecoder(len(source)), source, context_size=4096) as (engine, collector):
        counts = {True: 0, False: 0}
        for parallel in counts:
            for seed in range(4):
                one = ask(f"{parallel} {seed}", "required", seed=seed)
                engine.submit(msgspec.structs.replace(one, parallel_tool_calls=parallel))
                _, calls, _ = result(collector.outputs(one.request_id))
                counts[parallel] = max(counts[parallel], len(calls))
    assert counts[False] == 1 < counts[True]


@pytest.mark.parametrize(
    ("tools", "choice", "named"),
    [
        ((NOW, NOW), "auto", "tools"),
        ((Tool("a b"),), "auto", "tools"),
        ((Tool(""),), "auto", "tools"),
        ((Tool("auto"),), "auto", "tools"),
        (tuple(Tool(f"t{place}") for place in range(129)), "auto", "tools"),
        ((Tool("t", parameters={"type": "lamp"}),), "auto", "tools"),
        ((Tool("t", parameters={"enum": ["x" * 300_000]}),), "auto", "tools"),
        ((NOW, Tool("t", parameters={"enum": ["x" * 300_000]})), "now", "tools"),
        ((NOW,), "weather", "tool_choice"),
        ((), "required", "tool_choice"),
    ],
)
def test_i4_invalid_tools_are_rejected(tools: tuple[Tool, ...], choice: str, named: str) -> None:
    source = tokenizer_with(TEMPLATE)
    with (
        running_engine(RememberingDecoder(len(source)), source, context_size=1024) as (engine, _),
        pytest.raises(InvalidRequest) as refused,
    ):
        engine.submit(ask("bad", choice, tools, max_tokens=9))
    assert refused.value.details["parameter"] == named


def test_tools_need_a_conversation_and_no_other_constraint() -> None:
    source = tokenizer_with(TEMPLATE)
    with running_engine(RememberingDecoder(len(source)), source) as (engine, _):
        with pytest.raises(InvalidRequest, match="send `messages`"):
            engine.submit(GenerationRequest(request_id="raw", prompt="x", tools=(NOW,)))
        with pytest.raises(InvalidRequest, match="cannot be combined with structured output"):
            engine.submit(ask("both", "auto", constraint=OutputConstraint(ConstraintKind.JSON_OBJECT), max_tokens=9))
