"""From a request to a generation that can be queued: refused if it cannot work, encoded, its choices made."""

from functools import partial
from math import inf

import msgspec

from inference.engine.errors import InvalidRequest
from inference.engine.outputs import TokenLogprob
from inference.engine.prompt_limits import PromptLimits
from inference.engine.requests import REQUEST_PARAMETERS, GenerationRequest, Tool
from inference.engine.sampling import SamplingParams, check_sampling
from inference.engine.sampling.grammars import Grammars, TokenConstraint
from inference.engine.sampling.logprobs import Ranked
from inference.engine.scheduling.output_processor import Writer
from inference.engine.scheduling.sequence import Generation, Sequence
from inference.engine.text import TextStream, Tokenizer, ToolParser, ToolUse, check_tools, grammar, schema_length

MAX_SCORES = 2**18
# Seeds of neighbouring requests and choices must not meet: the golden ratio of 64 bits (SplitMix64).
SEED_STEP = 0x9E3779B97F4A7C15


class Intake:
    """Safe to use from many threads at once."""

    def __init__(self, *, tokenizer: Tokenizer, eos_ids: frozenset[int], context_size: int, vocabulary: int) -> None:
        self._tokenizer = tokenizer
        # A tokenizer may have tokens that its model was never given; one in a step would end everybody's.
        self._vocabulary = min(vocabulary, tokenizer.vocabulary)
        self._eos_ids = eos_ids
        self.limits = PromptLimits(context_size, tokenizer.longest_token)
        self._grammars = Grammars(tokenizer_json=tokenizer.to_json, eos_ids=eos_ids)

    def take(self, request: GenerationRequest, now: float) -> Generation:
        """Raises InvalidRequest or ContextLengthExceeded. now: on the monotonic clock."""
        check_sampling(request.sampling, vocabulary_size=self._tokenizer.vocabulary)
        _check(request)
        tools = self._tool_use(request)
        constraint = self._constraint(request, tools)
        prompt_ids = self._encode(request, tools)
        max_tokens = self._max_tokens(len(prompt_ids), request.sampling.max_tokens)
        generation = Generation(
            request_id=request.request_id,
            prompt_ids=prompt_ids,
            user=request.user,
            batch=request.batch,
            priority=request.priority,
            arrived_at=now,
            deadline=inf if request.timeout is None else now + request.timeout,
            traceparent=request.traceparent,
            scored=request.echo and request.sampling.logprobs is not None,
            echo=self._prompt_text(request, prompt_ids) if request.echo else None,
        )
        if generation.scored:
            _check_scores(len(prompt_ids), request.n, request.sampling.logprobs or 0)
            generation.prompt_logprobs.append(self.describe(prompt_ids[0], None, ()))
        for place in range(request.n):
            choice = self._choice(request, generation, max_tokens, place, tools)
            choice.constraint = constraint.copy() if constraint else None
            generation.choices.append(choice)
        return generation

    def describe(self, token: int, logprob: float | None, top: Ranked) -> TokenLogprob:
        """A token and its log probability as they are told."""
        ranking = tuple(self._described(other, its) for other, its in top)
        return msgspec.structs.replace(self._described(token, logprob), top=ranking)

    def _described(self, token: int, logprob: float | None) -> TokenLogprob:
        data = self._tokenizer.token_bytes(token)
        return TokenLogprob(token, data.decode(errors="replace"), data, logprob)

    def _tool_use(self, request: GenerationRequest) -> ToolUse | None:
        check_tools(request.tools, request.tool_choice)
        if not request.tools or request.tool_choice == "none":
            return None
        if request.messages is None:
            raise InvalidRequest("`tools` need a conversation: send `messages`.", parameter="tools")
        if request.sampling.constraint:
            message = "A call has a form of its own: leave out `tools`, or what asks for another form."
            raise InvalidRequest(message, parameter="tools")
        form = self._tokenizer.tool_form
        marker = self._tokenizer.control_id(form.marker)
        return ToolUse(form, request.tools, grammar(form, request.tools, request.tool_choice, marker), marker)

    def _constraint(self, request: GenerationRequest, tools: ToolUse | None) -> TokenConstraint | None:
        if tools is not None:
            return self._grammars.compile_grammar(tools.grammar, "tools")
        form = request.sampling.constraint
        return self._grammars.compile(form) if form else None

    def _choice(
        self, request: GenerationRequest, generation: Generation, max_tokens: int, place: int, tools: ToolUse | None
    ) -> Sequence:
        sampling = _sampling(request.sampling, place)
        decode = partial(self._tokenizer.decode, shown=tools.marker_id if tools else None)
        writer = Writer(
            request_id=request.request_id,
            choice=place,
            sampling=sampling,
            max_tokens=max_tokens,
            eos_ids=self._eos_ids,
            text=TextStream(decode, sampling.stop, max(sampling.min_tokens - 1, 0)),
            describe=self.describe,
            tools=ToolParser(tools.form) if tools else None,
            gathers=request.coalesce_outputs,
        )
        ids = list(generation.prompt_ids)
        return Sequence(generation=generation, choice=place, sampling=sampling, writer=writer, ids=ids)

    def _encode(self, request: GenerationRequest, tools: ToolUse | None) -> list[int]:
        told = tools.tools if tools else ()
        self.limits.check(request, more=sum(map(_told, told)))
        if request.prompt_ids is not None:
            prompt_ids = list(request.prompt_ids)
            if not all(0 <= token < self._vocabulary for token in prompt_ids):
                limit = self._vocabulary
                raise InvalidRequest(f"`prompt_ids` must be ids from 0 to {limit - 1}.", parameter="prompt_ids")
        elif request.messages is not None:
            prompt_ids = self._tokenizer.encode_chat(request.messages, told)
        else:
            prompt_ids = self._tokenizer.encode(request.prompt or "")
        if not prompt_ids:
            raise InvalidRequest("The prompt is empty. Send at least one character.", parameter="prompt")
        if max(prompt_ids) >= self._vocabulary:
            text = self._tokenizer.token_bytes(max(prompt_ids)).decode(errors="replace")
            raise InvalidRequest(
                f"The prompt needs {text!r}, a token that this model does not have.", parameter="prompt"
            )
        return prompt_ids

    def _max_tokens(self, prompt_tokens: int, asked: int | None) -> int:
        left = self.limits.context_size - prompt_tokens
        if left < (asked or 1):
            raise self.limits.too_long(prompt_tokens, asked)
        return asked or left

    def _prompt_text(self, request: GenerationRequest, prompt_ids: list[int]) -> str:
        return self._tokenizer.decode(prompt_ids) if request.prompt is None else request.prompt


def _check(request: GenerationRequest) -> None:
    prompts = [prompt for prompt in (request.prompt, request.prompt_ids, request.messages) if prompt is not None]
    if len(prompts) != 1:
        raise InvalidRequest("Send exactly one of `prompt`, `prompt_ids` and `messages`.", parameter="prompt")
    for name, parameter in REQUEST_PARAMETERS.items():
        parameter.check(getattr(request, name))


def _check_scores(prompt_tokens: int, choices: int, top: int) -> None:
    """They go out at once, in one output of each choice."""
    if prompt_tokens * choices * (1 + top) > MAX_SCORES:
        raise InvalidRequest(
            f"`logprobs` of an echoed prompt are at most {MAX_SCORES} numbers over all choices, and this prompt has "
            f"{prompt_tokens} tokens. Ask for fewer.",
            parameter="logprobs",
        )


def _told(tool: Tool) -> int:
    return len(tool.name) + len(tool.description) + schema_length(tool)


def _sampling(asked: SamplingParams, place: int) -> SamplingParams:
    """The first choice is what the request alone would be; each other one has a seed that follows from its own."""
    if asked.seed is None or place == 0:
        return asked
    return msgspec.structs.replace(asked, seed=asked.seed + place * SEED_STEP)
