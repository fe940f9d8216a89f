"""The input processor: checks a request, encodes its prompt and makes the `Generation` that is queued."""

import threading
from functools import partial
from math import inf

import msgspec

from inference.engine.errors import InvalidRequest
from inference.engine.outputs import TokenizationResult, TokenLogprob
from inference.engine.prompt_limits import PromptLimits
from inference.engine.requests import REQUEST_PARAMETERS, GenerationRequest, ScoringRequest, TokenizationRequest, Tool
from inference.engine.sampling import SamplingParams, check_sampling
from inference.engine.sampling.grammars import GrammarCompiler, TokenConstraint
from inference.engine.sampling.logprobs import RankedTokens
from inference.engine.scheduling.answers import AnswerNode, AnswerProcessor, AnswerScoring, find_nodes
from inference.engine.scheduling.output_processor import OutputProcessor
from inference.engine.scheduling.sequence import Generation, Sequence
from inference.engine.text import (
    ReasoningParser,
    TextStream,
    Tokenizer,
    ToolParser,
    ToolUse,
    check_tools,
    grammar,
    schema_length,
)

MAX_PROMPT_LOGPROBS = 2**18
MAX_SCORING_TOKENS = 2**18  # of all questions of a request, which one step after the other computes
# Seeds of neighbouring requests and choices must not meet: the golden ratio of 64 bits (SplitMix64).
SEED_STEP = 0x9E3779B97F4A7C15


class InputProcessor:
    """Checks and encoding of requests for one model. Thread-safe."""

    def __init__(self, *, tokenizer: Tokenizer, eos_ids: frozenset[int], context_size: int, vocabulary: int) -> None:
        self._tokenizer = tokenizer
        # A tokenizer may have tokens that its model lacks; one of them would fail the whole step.
        self._vocabulary = min(vocabulary, tokenizer.vocabulary)
        self._eos_ids = eos_ids
        self.limits = PromptLimits(context_size, tokenizer.longest_token)
        self._grammars = GrammarCompiler(tokenizer_json=tokenizer.to_json, eos_ids=eos_ids)

    def process(self, request: GenerationRequest, now: float) -> Generation:
        """Return the generation of a request that arrived at `now`, on the monotonic clock.

        Raise InvalidRequest or ContextLengthExceeded.
        """
        check_sampling(request.sampling, vocabulary_size=self._tokenizer.vocabulary)
        _check_request(request)
        tools = self._tool_use(request)
        prompt_ids = self._encode(request, tools)
        max_tokens = self._max_tokens(len(prompt_ids), request.sampling.max_tokens)
        constraint = self._constraint(request, tools, max_tokens)
        generation = Generation(
            request_id=request.request_id,
            prompt_ids=prompt_ids,
            user=request.user,
            places=request.places,
            batch=request.batch,
            priority=request.priority,
            arrived_at=now,
            deadline=inf if request.timeout is None else now + request.timeout,
            traceparent=request.traceparent,
            wants_prompt_logprobs=request.echo and request.sampling.logprobs is not None,
            echo=self._prompt_text(request, prompt_ids) if request.echo else None,
            prompt_only=request.prompt_only,
        )
        if generation.wants_prompt_logprobs:
            _check_prompt_logprobs(len(prompt_ids), request.n, request.sampling.logprobs or 0)
            generation.prompt_logprobs.append(self.describe(prompt_ids[0], None, ()))
        for index in range(request.n):
            choice = self._choice(request, generation, max_tokens, index, tools)
            choice.constraint = constraint.copy() if constraint else None
            generation.choices.append(choice)
        return generation

    def process_questions(
        self, request: ScoringRequest, now: float, *, cancelled: threading.Event, sequences: int
    ) -> tuple[Generation, AnswerScoring]:
        """Return the generation of a request with questions, in at most so many sequences, and its scores.

        Raise InvalidRequest or ContextLengthExceeded.
        """
        limit = self.limits.context_size
        characters = max(len(request.context), *(len(question.text) for question in request.questions))
        if characters > limit * self.limits.longest_token:
            raise self.limits.exceeded(-(-characters // self.limits.longest_token), 1, "at least ")
        questions = [(question.text, question.answers) for question in request.questions]
        context, encoded = self._tokenizer.encode_questions(request.context, questions)
        nodes = self._nodes(len(context), encoded)
        if max(max(context, default=0), *(max([*node.ids, *node.tokens]) for node in nodes)) >= self._vocabulary:
            raise InvalidRequest("The text needs a token that this model does not have.", parameter="input")
        scoring = AnswerScoring(
            request_id=request.request_id,
            context=context,
            nodes=nodes,
            answers=[len(answers) for _, answers in encoded],
            cancelled=cancelled,
        )
        generation = Generation(
            request_id=request.request_id,
            prompt_ids=context,
            user=request.user,
            batch=request.batch,
            questions=True,
            arrived_at=now,
        )
        for index in range(min(sequences, len(nodes))):
            node = scoring.next_node()
            assert node is not None
            sequence = Sequence(
                generation=generation,
                choice=index,
                sampling=SamplingParams(),
                output_processor=AnswerProcessor(scoring, node),
                ids=context + node.ids,
            )
            generation.choices.append(sequence)
        return generation, scoring

    def _nodes(self, context_tokens: int, encoded: list[tuple[list[int], list[list[int]]]]) -> list[AnswerNode]:
        """Return the nodes of all questions, each of which has a copy of its question: none above the limits."""
        limit, total = self.limits.context_size, 0
        nodes = []
        for index, (ids, answers) in enumerate(encoded):
            if context_tokens + len(ids) > limit:
                raise self.limits.exceeded(context_tokens + len(ids), 1)
            for node in find_nodes(index, ids, answers):
                if context_tokens + len(node.ids) > limit:
                    raise self.limits.exceeded(context_tokens + len(node.ids), 1)
                total += len(node.ids)
                if total > MAX_SCORING_TOKENS:
                    raise InvalidRequest(
                        f"The questions with their answers are more than {MAX_SCORING_TOKENS} tokens, the maximum. "
                        "Ask fewer or shorter questions.",
                        parameter="questions",
                    )
                nodes.append(node)
        return nodes

    def tokenize(self, request: TokenizationRequest) -> TokenizationResult:
        """Return the tokens of a text or of a conversation. Raise InvalidRequest or ContextLengthExceeded."""
        if request.messages:
            check_tools(request.tools, "auto")
            conversation = GenerationRequest(request_id="", messages=request.messages)
            self.limits.check(conversation, extra_characters=sum(map(_description_length, request.tools)))
        return self._tokenizer.tokenize(request, self.limits.context_size)

    def describe(self, token: int, logprob: float | None, top: RankedTokens) -> TokenLogprob:
        """Return a token's log probability with its text and bytes."""
        ranking = tuple(self._describe(other, other_logprob) for other, other_logprob in top)
        return msgspec.structs.replace(self._describe(token, logprob), top=ranking)

    def _describe(self, token: int, logprob: float | None) -> TokenLogprob:
        data = self._tokenizer.token_bytes(token)
        return TokenLogprob(token, data.decode(errors="replace"), data, logprob)

    def _tool_use(self, request: GenerationRequest) -> ToolUse | None:
        check_tools(request.tools, request.tool_choice)
        if not request.tools or request.tool_choice == "none":
            return None
        if request.messages is None:
            raise InvalidRequest("`tools` needs a conversation: send `messages`.", parameter="tools")
        if request.sampling.constraint:
            raise InvalidRequest(
                "`tools` cannot be combined with structured output: send only one of them.", parameter="tools"
            )
        syntax = self._tokenizer.tool_syntax
        marker = self._tokenizer.control_id(syntax.marker)
        calls_grammar = grammar(
            syntax, request.tools, request.tool_choice, marker, allows_several=request.parallel_tool_calls
        )
        return ToolUse(syntax, request.tools, calls_grammar, marker)

    def _constraint(self, request: GenerationRequest, tools: ToolUse | None, max_tokens: int) -> TokenConstraint | None:
        if tools is not None:
            return self._grammars.compile_grammar(tools.grammar, "tools")
        constraint = request.sampling.constraint
        return self._grammars.compile(constraint, max_tokens) if constraint else None

    def _choice(
        self, request: GenerationRequest, generation: Generation, max_tokens: int, index: int, tools: ToolUse | None
    ) -> Sequence:
        sampling = _choice_sampling(request.sampling, index)
        reasoning = self._reasoning_parser(request, generation.prompt_ids, tools)
        shown = self._tokenizer.reasoning_ids if reasoning else frozenset()
        if tools and tools.marker_id is not None:
            shown |= {tools.marker_id}
        decode = partial(self._tokenizer.decode, shown=shown)
        output_processor = OutputProcessor(
            request_id=request.request_id,
            choice=index,
            sampling=sampling,
            max_tokens=max_tokens,
            eos_ids=self._eos_ids,
            text=TextStream(decode, sampling.stop, max(sampling.min_tokens - 1, 0)),
            describe=self.describe,
            reasoning=reasoning,
            tools=ToolParser(tools.syntax) if tools else None,
            coalesce=request.coalesce_outputs,
        )
        return Sequence(
            generation=generation,
            choice=index,
            sampling=sampling,
            output_processor=output_processor,
            ids=list(generation.prompt_ids),
        )

    def _reasoning_parser(
        self, request: GenerationRequest, prompt_ids: list[int], tools: ToolUse | None
    ) -> ReasoningParser | None:
        """Return the parser of a text that may begin with reasoning. A constraint leaves no room for it."""
        is_free = not request.sampling.constraint and (tools is None or request.tool_choice == "auto")
        if not request.separates_reasoning or not is_free or not self._tokenizer.reasons:
            return None
        return ReasoningParser(is_open=self._tokenizer.opens_reasoning(prompt_ids))

    def _encode(self, request: GenerationRequest, tools: ToolUse | None) -> list[int]:
        described_tools = tools.tools if tools else ()
        self.limits.check(request, extra_characters=sum(map(_description_length, described_tools)))
        if request.prompt_ids is not None:
            prompt_ids = list(request.prompt_ids)
            if not all(0 <= token < self._vocabulary for token in prompt_ids):
                limit = self._vocabulary
                raise InvalidRequest(f"`prompt_ids` must be ids from 0 to {limit - 1}.", parameter="prompt_ids")
        elif request.messages is not None:
            prompt_ids = self._tokenizer.encode_chat(
                request.messages, described_tools, request.template_options, request.thinking
            )
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

    def _max_tokens(self, prompt_tokens: int, requested: int | None) -> int:
        available = self.limits.context_size - prompt_tokens
        if available < (requested or 1):
            raise self.limits.exceeded(prompt_tokens, requested)
        return requested or available

    def _prompt_text(self, request: GenerationRequest, prompt_ids: list[int]) -> str:
        return self._tokenizer.decode(prompt_ids) if request.prompt is None else request.prompt


def _check_request(request: GenerationRequest) -> None:
    prompts = [prompt for prompt in (request.prompt, request.prompt_ids, request.messages) if prompt is not None]
    if len(prompts) != 1:
        raise InvalidRequest("Send exactly one of `prompt`, `prompt_ids` and `messages`.", parameter="prompt")
    if request.prompt_only and not request.echo:
        raise InvalidRequest("`prompt_only` needs `echo`: set it to true.", parameter="echo")
    for name, parameter in REQUEST_PARAMETERS.items():
        parameter.check(getattr(request, name))


def _check_prompt_logprobs(prompt_tokens: int, choices: int, top: int) -> None:
    """Raise InvalidRequest for more numbers than one output may hold: each choice sends them all at once."""
    if prompt_tokens * choices * (1 + top) > MAX_PROMPT_LOGPROBS:
        raise InvalidRequest(
            f"`logprobs` of an echoed prompt are at most {MAX_PROMPT_LOGPROBS} numbers over all choices, and this "
            f"prompt has {prompt_tokens} tokens. Ask for fewer.",
            parameter="logprobs",
        )


def _description_length(tool: Tool) -> int:
    return len(tool.name) + len(tool.description) + schema_length(tool)


def _choice_sampling(params: SamplingParams, choice: int) -> SamplingParams:
    """Return the parameters of a choice. The first one has the request's seed; the others derive theirs from it."""
    if params.seed is None or choice == 0:
        return params
    return msgspec.structs.replace(params, seed=params.seed + choice * SEED_STEP)
