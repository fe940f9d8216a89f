"""The base of encoders: texts of several requests run together, in batches of similar length."""

import itertools
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from inference.engine.core_budget import release_cores, take_cores
from inference.engine.errors import ContextLengthExceeded, InferenceFailed, InvalidRequest
from inference.engine.outputs import TokenizationResult
from inference.engine.requests import TokenizationRequest
from inference.engine.text import EncodedText, Tokenizer

MAX_BATCH_TEXTS = 32
MAX_BATCH_TOKENS = 768  # padding included; measured with MiniLM: activations of more leave the processor's cache
NOT_FINITE = "The model computed NaN or infinity for one of the texts: its weights may be damaged. Try another text."
# Families whose layers have the same modules, and whose classification heads read the first token.
FIRST_TOKEN_FAMILIES = frozenset({"bert", "camembert", "electra", "roberta", "xlm-roberta"})
LENGTH_STEP = 16  # texts of lengths up to the same multiple are batched together


@dataclass(eq=False)
class _EncoderJob:
    """The texts of one request.

    user: users take turns.
    one_core: its texts never run on several cores at once.
    pending: indices of texts that are still to run, longest last.
    rows: results of the texts, packed; empty before they have run.
    """

    texts: Sequence[EncodedText]
    cancelled: threading.Event
    user: str
    one_core: bool = False
    pending: list[int] = field(init=False)
    rows: list[bytes] = field(init=False)
    done: "Future[list[bytes]]" = field(default_factory=Future)

    def __post_init__(self) -> None:
        self.pending = sorted(range(len(self.texts)), key=lambda index: len(self.texts[index]))
        self.rows = [b""] * len(self.texts)

    @property
    def is_finished(self) -> bool:
        return not self.pending and all(self.rows)


class Encoder:
    """A model that computes one row of numbers per text. Thread-safe. Subclasses implement `_run`.

    Each core runs a batch of its own while there are several: two cores with one batch each compute 1.3 to 1.6 times as
    many texts as with one batch together, whose threads wait for each other at each operation. A single batch has all
    cores. While other models are busy, all cores are this model's share of them.

    length_multiple: batches are padded to a multiple of it. With `LENGTH_STEP`, sums over the tokens of a text have
        the same order in each batch, so that a text's row with int8 weights is the same to the last bit.
    """

    def __init__(
        self, *, model: PreTrainedModel, tokenizer: Tokenizer, context_size: int, length_multiple: int = 1
    ) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._context_size = context_size
        self._length_multiple = length_multiple
        # A tokenizer may have tokens that its model lacks; one of them would fail the whole batch.
        embeddings: Any = model.get_input_embeddings()
        self._vocabulary: int = min(tokenizer.vocabulary, embeddings.num_embeddings)
        self._lock = threading.Lock()
        self._jobs: deque[_EncoderJob] = deque()
        self._served: dict[str, int] = {}  # the number of the last batch that began with a text of the user
        self._batches = itertools.count(1)
        self._threads = torch.get_num_threads()
        self._running = 0
        self._runners = ThreadPoolExecutor(self._threads, "encode")

    def tokenize(self, request: TokenizationRequest) -> TokenizationResult:
        """Return the tokens of a text. Raise InvalidRequest."""
        return self._tokenizer.tokenize(request, self._context_size)

    def detokenize(self, ids: list[int]) -> str:
        """Return the text of `ids` without special tokens. Raise InvalidRequest for an unknown id."""
        return self._tokenizer.decode_checked(ids)

    @property
    def waiting(self) -> int:
        """Return the number of texts that are still to run."""
        with self._lock:
            return sum(len(job.pending) for job in self._jobs)

    def run(
        self, texts: Sequence[EncodedText], cancelled: threading.Event, *, user: str, one_core: bool = False
    ) -> list[bytes]:
        """Return the rows of the texts, each as little-endian float32.

        user: the user whose turn the texts take.
        cancelled: when it is set, the remaining texts are dropped.
        one_core: leave the other cores to what else runs on the machine.
        Raise InferenceFailed for a row that is not finite; CancelledError if cancelled.
        """
        job = _EncoderJob(texts, cancelled, user, one_core)
        with self._lock:
            self._jobs.append(job)
        for _ in range(1 if one_core else min(self._threads, len(texts))):
            self._runners.submit(self._run_batches)
        return job.done.result()

    def check(self, text: EncodedText, name: str, parameter: str) -> EncodedText:
        """Return the text. Raise InvalidRequest if it is empty or has an unknown token, and ContextLengthExceeded.

        name: of the text in errors, such as "text 0". parameter: the field of the request that holds it.
        """
        if not text.ids:
            raise InvalidRequest(f"{name.capitalize()} is empty. Send at least one character.", parameter=parameter)
        if len(text) > self._context_size:
            raise ContextLengthExceeded(
                f"This model's maximum context length is {self._context_size} tokens. However, you requested at least "
                f"{len(text)} tokens in {name}. Shorten or split it.",
                context_size=self._context_size,
                prompt_tokens=len(text),
                max_tokens=0,
            )
        if not all(0 <= token < self._vocabulary for token in text.ids):
            raise InvalidRequest(
                f"{name.capitalize()} has a token that this model does not have: ids are from 0 to "
                f"{self._vocabulary - 1}.",
                parameter=parameter,
            )
        return text

    def _run(self, batch: Sequence[EncodedText]) -> Tensor:
        """Return the rows of a batch, [texts, numbers]."""
        raise NotImplementedError

    def pad(self, batch: Sequence[EncodedText]) -> dict[str, Tensor]:
        """Return `input_ids` and the `attention_mask` of a batch, padded at the end."""
        multiple = self._length_multiple
        longest = min(-(-max(map(len, batch)) // multiple) * multiple, self._context_size)
        pad = self._tokenizer.pad_id
        ids = torch.tensor([[*text.ids, *[pad] * (longest - len(text))] for text in batch])
        mask = torch.arange(longest)[None, :] < torch.tensor([[len(text)] for text in batch])
        return {"input_ids": ids, "attention_mask": mask.long()}

    def _run_batches(self) -> None:
        """Run batches until no text waits."""
        while batch := self._next_batch():
            try:
                rows = self._run([job.texts[index] for job, index in batch])
            except Exception as error:  # every waiting caller gets it
                self._end_batch()
                self._fail({job for job, _ in batch}, error)
                continue
            self._end_batch()
            if failed := {job for (job, _), row in zip(batch, rows, strict=True) if not bool(row.isfinite().all())}:
                self._fail(failed, InferenceFailed(NOT_FINITE))
            for (job, index), row in zip(batch, rows.numpy().astype("<f4"), strict=True):
                job.rows[index] = row.tobytes()
            self._finish()

    def _next_batch(self) -> list[tuple[_EncoderJob, int]]:
        """Return the longest text of the next user's next job, with the longest texts of all jobs up to its length.

        Return none if no text waits, or other batches use this model's share of the cores. Set the threads of this
        batch: all if no other batch runs or waits, and it may have more than one.
        """
        with self._lock:
            self._drop_cancelled()
            jobs = (job for job in self._jobs if job.pending)
            first = min(jobs, key=lambda job: self._served.get(job.user, 0), default=None)  # the first of equals
            if first is None:
                self._served.clear()
                if not self._running:
                    release_cores()
                return []
            threads = take_cores(self._wanted_threads())
            if self._running >= threads:
                return []
            self._served[first.user] = next(self._batches)
            self._jobs.remove(first)
            self._jobs.append(first)
            longest = -(-len(first.texts[first.pending[-1]]) // LENGTH_STEP) * LENGTH_STEP
            batch = [(first, first.pending.pop())]
            size = min(MAX_BATCH_TEXTS, max(1, MAX_BATCH_TOKENS // longest))
            while len(batch) < size and (job := self._longest_within(longest, first.user)):
                batch.append((job, job.pending.pop()))
            self._running += 1
            waits = any(job.pending for job in self._jobs)
            is_alone = self._running == 1 and not waits and not first.one_core
            if waits and self._running < threads:  # the share may have grown
                self._runners.submit(self._run_batches)
        torch.set_num_threads(threads if is_alone else 1)
        return batch

    def _wanted_threads(self) -> int:
        return min(self._threads, sum(1 if job.one_core else self._threads for job in self._jobs))

    def _drop_cancelled(self) -> None:
        for job in [job for job in self._jobs if job.cancelled.is_set()]:
            self._jobs.remove(job)
            job.done.cancel()

    def _longest_within(self, limit: int, user: str) -> _EncoderJob | None:
        """Return the job with the longest waiting text of at most `limit` tokens; of equals the user's, then the first.

        Lengths that are padded alike are equal.
        """
        ends = [(job, len(job.texts[job.pending[-1]])) for job in self._jobs if job.pending]
        fitting = [
            (-(-length // LENGTH_STEP), job.user == user, length, job) for job, length in ends if length <= limit
        ]
        return max(fitting, key=lambda one: one[:3])[3] if fitting else None

    def _end_batch(self) -> None:
        with self._lock:
            self._running -= 1

    def _finish(self) -> None:
        with self._lock:
            finished = [job for job in self._jobs if job.is_finished]
            self._jobs = deque(job for job in self._jobs if not job.is_finished)
        for job in finished:
            job.done.set_result(job.rows)

    def _fail(self, jobs: set[_EncoderJob], error: Exception) -> None:
        with self._lock:
            failed = [job for job in self._jobs if job in jobs]  # another batch of a job may have failed before
            self._jobs = deque(job for job in self._jobs if job not in jobs)
        for job in failed:
            job.done.set_exception(error)


class FirstTokenLayer(nn.Module):
    """A layer that returns the output of the first token, [texts, 1, hidden]: 14 % less work with six layers."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self._layer = layer

    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, *others: object, **options: object
    ) -> Tensor:
        attention = self._layer.attention.self
        first = hidden_states[:, :1]
        query = attention.query(first).unflatten(-1, (-1, attention.attention_head_size)).transpose(1, 2)
        mask = None if attention_mask is None else attention_mask[:, :, :1]
        is_plain = type(attention.key) is type(attention.value) is nn.Linear
        attend = attend_to_states if is_plain else attend_to_keys
        context = attend(attention, query, hidden_states, mask)
        attended = self._layer.attention.output(context.transpose(1, 2).flatten(2), first)
        output: Tensor = self._layer.feed_forward_chunk(attended)
        return output


def attend_to_keys(attention: Any, query: Tensor, states: Tensor, mask: Tensor | None) -> Tensor:
    """Return the context of one query per text and head, [texts, heads, 1, head size].

    query: [texts, heads, 1, head size]. states: [texts, tokens, hidden]. mask: [texts, 1, 1, tokens].
    """
    key, value = (
        module(states).unflatten(-1, (-1, attention.attention_head_size)).transpose(1, 2)
        for module in (attention.key, attention.value)
    )
    return functional.scaled_dot_product_attention(query, key, value, mask, scale=attention.scaling)


def attend_to_states(attention: Any, query: Tensor, states: Tensor, mask: Tensor | None) -> Tensor:
    """Return what `attend_to_keys` does, without keys and values, which are of one query only.

    The query is multiplied by the keys' weights, and the average of the states by the values'; heads are rows, so that
    neither states nor weights are copied for each. The keys' bias adds the same to all scores of a query, so it changes
    nothing.
    """
    key, value = (
        module.weight.unflatten(0, (-1, attention.attention_head_size)) for module in (attention.key, attention.value)
    )
    states = states[:, None]
    heads = (query.squeeze(2).transpose(0, 1) @ key).transpose(0, 1)[:, None]  # [texts, 1, heads, hidden]
    averages = functional.scaled_dot_product_attention(heads, states, states, mask, scale=attention.scaling)[:, 0]
    context: Tensor = (averages.transpose(0, 1) @ value.transpose(1, 2)).transpose(0, 1)[:, :, None]
    if attention.value.bias is not None:
        context = context + attention.value.bias.unflatten(0, (-1, 1, attention.attention_head_size))
    return context


def compute_first_token_only(model: PreTrainedModel) -> None:
    """Replace the last layer of a model of a known family, of whose last layer only the first token is read."""
    config: Any = model.config
    if config.model_type in FIRST_TOKEN_FAMILIES and not config.is_decoder:
        layers: Any = model.base_model.encoder.layer  # type: ignore[union-attr]
        layers[-1] = FirstTokenLayer(layers[-1])
