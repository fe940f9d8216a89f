"""The embedder: last hidden states of an encoder, pooled over each text's tokens and normalized to length 1."""

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import PreTrainedModel

from inference.engine.errors import ContextLengthExceeded, InferenceFailed, InvalidRequest, ModelLoadFailed
from inference.engine.formats import read_json, read_objects
from inference.engine.outputs import EmbeddingResult
from inference.engine.requests import EmbeddingRequest
from inference.engine.text import Tokenizer

Pooling = Literal["mean", "cls"]
SUPPORTED_MODULES = frozenset({"Transformer", "Pooling", "Normalize"})  # of sentence-transformers
MAX_BATCH_TEXTS = 32
MAX_BATCH_TOKENS = 8192  # padding included
NOT_FINITE = "The model computed NaN or infinity for one of the texts: its weights may be damaged. Try another text."
MANY_CHARACTERS = 64  # per token; only white space and unknown words have more
LENGTH_STEP = 16  # texts of lengths up to the same multiple are batched together


@dataclass(eq=False)
class _EmbeddingJob:
    """The texts of one request.

    pending: indices of texts that are still to run, longest last.
    vectors: those of the other texts.
    """

    texts: list[list[int]]
    cancelled: threading.Event
    pending: list[int] = field(init=False)
    vectors: list[bytes] = field(init=False)
    done: "Future[list[bytes]]" = field(default_factory=Future)

    def __post_init__(self) -> None:
        self.pending = sorted(range(len(self.texts)), key=lambda index: len(self.texts[index]))
        self.vectors = [b""] * len(self.texts)


class Embedder:
    """An encoder that embeds texts of several requests together, in batches of similar length. Thread-safe."""

    def __init__(self, *, model: PreTrainedModel, tokenizer: Tokenizer, pooling: Pooling, context_size: int) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._pooling = pooling
        self._context_size = context_size
        # A tokenizer may have tokens that its model lacks; one of them would fail the whole batch.
        embeddings: Any = model.get_input_embeddings()
        self._vocabulary: int = min(tokenizer.vocabulary, embeddings.num_embeddings)
        self._lock = threading.Lock()
        self._jobs: deque[_EmbeddingJob] = deque()
        self._runner = ThreadPoolExecutor(1, "embed")

    def embed(self, request: EmbeddingRequest, cancelled: threading.Event) -> EmbeddingResult:
        """Return one vector per text, in the order of the texts.

        cancelled: when it is set, the remaining texts are dropped.
        Raise InvalidRequest for no texts, an empty text or a token that the model does not have; ContextLengthExceeded
        for a text that is too long; InferenceFailed for a vector that is not finite; CancelledError if cancelled.
        """
        if not request.texts:
            raise InvalidRequest("There is no text to embed. Send at least one.")
        job = _EmbeddingJob([self._encode(index, text) for index, text in enumerate(request.texts)], cancelled)
        with self._lock:
            self._jobs.append(job)
        self._runner.submit(self._run_batches)
        vectors = job.done.result()
        return EmbeddingResult(
            request_id=request.request_id,
            dimensions=len(vectors[0]) // 4,
            vectors=tuple(vectors),
            prompt_tokens=sum(map(len, job.texts)),
        )

    def tokenize(self, text: str) -> list[int]:
        """Return the token ids of `text` as an input."""
        return self._tokenizer.encode(text)

    def detokenize(self, ids: list[int]) -> str:
        """Return the text of `ids` without special tokens. Raise InvalidRequest for an unknown id."""
        return self._tokenizer.decode_checked(ids)

    @property
    def waiting(self) -> int:
        """Return the number of texts that are still to run."""
        with self._lock:
            return sum(len(job.pending) for job in self._jobs)

    def _run_batches(self) -> None:
        """Run batches until no text waits."""
        while batch := self._next_batch():
            try:
                rows = self._run([job.texts[index] for job, index in batch])
            except Exception as error:  # every waiting caller gets it
                self._fail({job for job, _ in batch}, error)
                continue
            if failed := {job for (job, _), row in zip(batch, rows, strict=True) if not bool(row.isfinite().all())}:
                self._fail(failed, InferenceFailed(NOT_FINITE))
            for (job, index), row in zip(batch, rows.numpy().astype("<f4"), strict=True):
                job.vectors[index] = row.tobytes()
            self._finish()

    def _next_batch(self) -> list[tuple[_EmbeddingJob, int]]:
        """Return the longest text of the next job in turn, with the longest texts of all jobs up to its length."""
        with self._lock:
            self._drop_cancelled()
            if not self._jobs:
                return []
            first = self._jobs[0]
            self._jobs.rotate(-1)
            longest = -(-len(first.texts[first.pending[-1]]) // LENGTH_STEP) * LENGTH_STEP
            batch = [(first, first.pending.pop())]
            size = min(MAX_BATCH_TEXTS, max(1, MAX_BATCH_TOKENS // longest))
            while len(batch) < size and (job := self._longest_within(longest)):
                batch.append((job, job.pending.pop()))
            return batch

    def _drop_cancelled(self) -> None:
        for job in [job for job in self._jobs if job.cancelled.is_set()]:
            self._jobs.remove(job)
            job.done.cancel()

    def _longest_within(self, limit: int) -> _EmbeddingJob | None:
        """Return the job with the longest waiting text of at most `limit` tokens; the first of equals."""
        lengths = [(len(job.texts[job.pending[-1]]), -index) for index, job in enumerate(self._jobs) if job.pending]
        length, negative_index = max((one for one in lengths if one[0] <= limit), default=(0, 0))
        return self._jobs[-negative_index] if length else None

    def _finish(self) -> None:
        with self._lock:
            finished = [job for job in self._jobs if not job.pending]
            self._jobs = deque(job for job in self._jobs if job.pending)
        for job in finished:
            job.done.set_result(job.vectors)

    def _fail(self, jobs: set[_EmbeddingJob], error: Exception) -> None:
        with self._lock:
            self._jobs = deque(job for job in self._jobs if job not in jobs)
        for job in jobs:
            job.done.set_exception(error)

    def _encode(self, index: int, text: str | tuple[int, ...]) -> list[int]:
        ids = self._tokenize_within_limit(text) if isinstance(text, str) else list(text)
        if not ids:
            raise InvalidRequest(f"Text {index} is empty. Send at least one character.", parameter="input")
        if len(ids) > self._context_size:
            raise ContextLengthExceeded(
                f"Text {index} has at least {len(ids)} tokens, but the context has {self._context_size}. Shorten or "
                "split it.",
                context_size=self._context_size,
                prompt_tokens=len(ids),
                max_tokens=0,
            )
        if not all(0 <= token < self._vocabulary for token in ids):
            raise InvalidRequest(
                f"Text {index} has a token that this model does not have: ids are from 0 to {self._vocabulary - 1}.",
                parameter="input",
            )
        return ids

    def _tokenize_within_limit(self, text: str) -> list[int]:
        """Return the ids of a text, or those of its beginning if they are too many already."""
        beginning = self._tokenizer.encode(text[: MANY_CHARACTERS * self._context_size])
        if len(text) <= MANY_CHARACTERS * self._context_size or len(beginning) > 2 * self._context_size:
            return beginning
        return self._tokenizer.encode(text)

    @torch.inference_mode()
    def _run(self, batch: Sequence[list[int]]) -> Tensor:
        """Return the vectors of a batch, [texts, dimensions]."""
        longest = max(map(len, batch))
        pad = self._tokenizer.pad_id
        ids = torch.tensor([text + [pad] * (longest - len(text)) for text in batch])
        mask = torch.arange(longest)[None, :] < torch.tensor([[len(text)] for text in batch])
        hidden = self._model(input_ids=ids, attention_mask=mask.long()).last_hidden_state.float()
        if self._pooling == "cls":
            pooled = hidden[:, 0]
        else:
            pooled = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        return torch.nn.functional.normalize(pooled, dim=-1)


def read_pooling(path: Path) -> Pooling:
    """Return the pooling of the folder's sentence-transformers files; `mean` by default.

    Raise ModelLoadFailed for other kinds of pooling, and for other modules.
    """
    file = path / _pooling_folder(path) / "config.json"
    if not file.exists():
        return "mean"
    config = read_json(file)
    # Older folders have a flag per mode, newer ones the mode's name.
    modes = {
        key.removeprefix("pooling_mode_").split("_")[0] for key in config if "_mode_" in key and config[key] is True
    }
    modes.add(str(config.get("pooling_mode", "mean" if not modes else "")))
    modes.discard("")
    if modes == {"cls"}:
        return "cls"
    if modes == {"mean"}:
        return "mean"
    raise ModelLoadFailed("1_Pooling/config.json has a pooling mode that is not supported: use mean or cls.")


def _pooling_folder(path: Path) -> str:
    """Return the name of the pooling folder. Raise ModelLoadFailed for modules that would change the vectors."""
    listing = path / "modules.json"
    modules = read_objects(listing) if listing.exists() else []
    folders = {str(module.get("type")).rpartition(".")[2]: str(module.get("path")) for module in modules}
    if unknown := folders.keys() - SUPPORTED_MODULES:
        raise ModelLoadFailed(f"modules.json has {', '.join(sorted(unknown))}, which is not supported.")
    folder = folders.get("Pooling", "1_Pooling")
    if Path(folder).name != folder:
        raise ModelLoadFailed("modules.json names a folder outside the model's folder.")
    return folder


def position_limit(model: PreTrainedModel) -> list[int]:
    """Return the maximum text length of models whose positions start after the padding's, as in RoBERTa."""
    tables = [module for name, module in model.named_modules() if name.endswith("position_embeddings")]
    return [
        table.num_embeddings - table.padding_idx - 1
        for table in tables
        if isinstance(table, torch.nn.Embedding) and table.padding_idx is not None
    ]


def read_max_length(path: Path) -> list[int]:
    """Return the maximum text length of the folder's sentence-transformers file, or []."""
    file = path / "sentence_bert_config.json"
    limit = read_json(file).get("max_seq_length") if file.exists() else None
    return [limit] if isinstance(limit, int) else []
