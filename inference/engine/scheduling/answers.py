"""Questions that are scored by the probabilities of their answers: where the answers differ, and their scores."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from math import exp

from inference.engine.errors import DeadlineExceeded, EngineError, InferenceFailed, InvalidRequest, ModelNotLoaded
from inference.engine.model_status import ModelState
from inference.engine.outputs import FinishReason, GenerationOutput, ScoringResult

UNLOADED = "The model is being unloaded; load it again first."


@dataclass(frozen=True, slots=True)
class AnswerNode:
    """A point where answers to a question differ: after `ids`, which follow the context, comes one of `tokens`.

    branches: indices of the answers that continue with each of `tokens`.
    """

    question: int
    ids: list[int]
    tokens: list[int]
    branches: list[list[int]]


def find_nodes(question: int, ids: list[int], answers: Sequence[list[int]]) -> Iterator[AnswerNode]:
    """Yield the points where the answers differ, each after the one that leads to it. ids: tokens of the question.

    Raise InvalidRequest for answers with the same tokens, or with the tokens that another begins with.
    """
    groups = deque([(0, list(range(len(answers))))])
    while groups:
        depth, group = groups.popleft()
        branches: dict[int, list[int]] = {}
        for index in group:
            if depth == len(answers[index]):
                raise InvalidRequest(
                    f"The model's tokenizer cannot tell the answers of question {question} apart. Name them "
                    "differently.",
                    parameter="questions",
                )
            branches.setdefault(answers[index][depth], []).append(index)
        if len(branches) > 1:
            start = ids + answers[group[0]][:depth]
            yield AnswerNode(question, start, list(branches), list(branches.values()))
        groups.extend((depth + 1, branch) for branch in branches.values() if len(branch) > 1)


class AnswerScoring:
    """The scores of one request's answers, while its nodes are computed in any order.

    The probability of an answer is the product of the probabilities of its branches, each among those of its node. So
    the probabilities of a question's answers add up to 1.

    own_tokens: tokens of the questions, without the context.
    cancelled: set when the client no longer waits.
    """

    def __init__(
        self,
        *,
        request_id: str,
        context: list[int],
        nodes: Iterable[AnswerNode],
        answers: list[int],
        cancelled: threading.Event,
    ) -> None:
        self.context = context
        self.cancelled = cancelled
        self.done: Future[ScoringResult] = Future()
        self.error: EngineError | None = None
        self._request_id = request_id
        self._nodes = deque(nodes)
        self._has_many_nodes = len(self._nodes) > 1
        self._logprobs = [[0.0] * count for count in answers]
        lengths = [0] * len(answers)
        for node in self._nodes:
            lengths[node.question] = max(lengths[node.question], len(node.ids))
        self.own_tokens = sum(lengths)

    def next_node(self) -> AnswerNode | None:
        """Return the next node to compute, or None if there is none."""
        return self._nodes.popleft() if self._nodes else None

    def record(self, node: AnswerNode, logprobs: Sequence[float]) -> None:
        """Add the log probabilities of a node's branches."""
        for branch, logprob in zip(node.branches, logprobs, strict=True):
            for answer in branch:
                self._logprobs[node.question][answer] += logprob

    def finish(self, found_tokens: int) -> None:
        """Return the scores or the error to the caller, once no sequence runs.

        found_tokens: prompt tokens that were in the prefix cache before.
        """
        if self.error:
            if not self.done.done():
                self.done.set_exception(self.error)
            return
        written = max(len(self.context) - found_tokens, 0)
        self.done.set_result(
            ScoringResult(
                request_id=self._request_id,
                scores=tuple(tuple(map(exp, row)) for row in self._logprobs),
                prompt_tokens=len(self.context) + self.own_tokens,
                cached_tokens=max(found_tokens, len(self.context) if self._has_many_nodes else 0),
                cache_write_tokens=written,
            )
        )

    def fail(self, error: EngineError) -> None:
        """Drop the remaining nodes: `finish` returns the error to the caller. Only the first call has an effect."""
        self._nodes.clear()
        self.error = self.error or error


class AnswerProcessor:
    """The work on one sequence of a request with questions, in place of an `OutputProcessor`. It samples nothing."""

    tokens = 0

    def __init__(self, scoring: AnswerScoring, node: AnswerNode) -> None:
        self.scoring = scoring
        self.node = node

    def abort(self, reason: FinishReason, error: str | None = None, error_code: str | None = None) -> GenerationOutput:
        """Fail the request. The output that is returned belongs to no stream."""
        if reason is FinishReason.CANCELLED:
            self.scoring.fail(ModelNotLoaded(UNLOADED, state=ModelState.UNLOADING, retry_after=1))
        else:
            kind = DeadlineExceeded if error_code == "TIMEOUT" else InferenceFailed
            self.scoring.fail(kind(error or "The engine failed while it ran this request. Try again."))
        self.scoring.finish(0)
        return GenerationOutput(request_id="", index=0, text="", finish_reason=reason, error=error)
