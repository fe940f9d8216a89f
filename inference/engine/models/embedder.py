"""Embeddings: last hidden states, pooled over each text's real tokens and scaled to length 1."""

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
MODULES = frozenset({"Transformer", "Pooling", "Normalize"})  # of sentence-transformers
BATCH_TEXTS = 32
BATCH_TOKENS = 8192  # padding included
NOT_NUMBERS = "The model computed no numbers for one of the texts: its weights are broken, or the text leads it astray."
MANY_CHARACTERS = 64  # a token; more are hardly ever met, but for white space and words that no token is for
BUCKET = 16  # lengths up to the same multiple of it go together


@dataclass(eq=False)
class _Job:
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
        self.pending = sorted(range(len(self.texts)), key=lambda place: len(self.texts[place]))
        self.vectors = [b""] * len(self.texts)


class Embedder:
    """Embeds texts in batches of like length, those of several requests together. Safe to use from many threads."""

    def __init__(self, *, model: PreTrainedModel, tokenizer: Tokenizer, pooling: Pooling, context_size: int) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._pooling = pooling
        self._context_size = context_size
        # A tokenizer may have tokens that its model was never given; one in a batch would fail everybody's.
        embeddings: Any = model.get_input_embeddings()
        self._vocabulary: int = min(tokenizer.vocabulary, embeddings.num_embeddings)
        self._lock = threading.Lock()
        self._jobs: deque[_Job] = deque()
        self._runner = ThreadPoolExecutor(1, "embed")

    def embed(self, request: EmbeddingRequest, cancelled: threading.Event) -> EmbeddingResult:
        """Return one vector per text, in the order of the texts.

        cancelled: when it is set, the remaining texts are dropped.
        Raise InvalidRequest for no texts, an empty text or a token that the model does not have; ContextLengthExceeded
        for a text that is too long; InferenceFailed for a vector that is not finite; CancelledError if cancelled.
        """
        if not request.texts:
            raise InvalidRequest("There is no text to embed. Send at least one.")
        job = _Job([self._encode(place, text) for place, text in enumerate(request.texts)], cancelled)
        with self._lock:
            self._jobs.append(job)
        self._runner.submit(self._work)
        vectors = job.done.result()
        return EmbeddingResult(
            request_id=request.request_id,
            dimensions=len(vectors[0]) // 4,
            vectors=tuple(vectors),
            prompt_tokens=sum(map(len, job.texts)),
        )

    def tokenize(self, text: str) -> list[int]:
        """The ids that `text` has when it is embedded."""
        return self._tokenizer.encode(text)

    def detokenize(self, ids: list[int]) -> str:
        """Return the text of `ids` without special tokens. Raise InvalidRequest for an unknown id."""
        return self._tokenizer.decode_checked(ids)

    @property
    def waiting(self) -> int:
        """How many texts are still to run."""
        with self._lock:
            return sum(len(job.pending) for job in self._jobs)

    def _work(self) -> None:
        """Runs batches until no text waits."""
        while batch := self._next_batch():
            try:
                rows = self._run([job.texts[place] for job, place in batch])
            except Exception as error:  # whoever waits must hear of it
                self._fail({job for job, _ in batch}, error)
                continue
            if broken := {job for (job, _), row in zip(batch, rows, strict=True) if not bool(row.isfinite().all())}:
                self._fail(broken, InferenceFailed(NOT_NUMBERS))
            for (job, place), row in zip(batch, rows.numpy().astype("<f4"), strict=True):
                job.vectors[place] = row.tobytes()
            self._finish()

    def _next_batch(self) -> list[tuple[_Job, int]]:
        """The longest text of the job whose turn it is, and those of all jobs that come next to it in length."""
        with self._lock:
            self._drop_cancelled()
            if not self._jobs:
                return []
            turn = self._jobs[0]
            self._jobs.rotate(-1)
            longest = -(-len(turn.texts[turn.pending[-1]]) // BUCKET) * BUCKET
            batch = [(turn, turn.pending.pop())]
            room = min(BATCH_TEXTS, max(1, BATCH_TOKENS // longest))
            while len(batch) < room and (job := self._longest_within(longest)):
                batch.append((job, job.pending.pop()))
            return batch

    def _drop_cancelled(self) -> None:
        for job in [job for job in self._jobs if job.cancelled.is_set()]:
            self._jobs.remove(job)
            job.done.cancel()

    def _longest_within(self, limit: int) -> _Job | None:
        """The job with the longest waiting text of at most `limit` tokens."""
        lengths = [(len(job.texts[job.pending[-1]]), -place) for place, job in enumerate(self._jobs) if job.pending]
        length, place = max((found for found in lengths if found[0] <= limit), default=(0, 0))
        return self._jobs[-place] if length else None

    def _finish(self) -> None:
        with self._lock:
            finished = [job for job in self._jobs if not job.pending]
            self._jobs = deque(job for job in self._jobs if job.pending)
        for job in finished:
            job.done.set_result(job.vectors)

    def _fail(self, jobs: set[_Job], error: Exception) -> None:
        with self._lock:
            self._jobs = deque(job for job in self._jobs if job not in jobs)
        for job in jobs:
            job.done.set_exception(error)

    def _encode(self, place: int, text: str | tuple[int, ...]) -> list[int]:
        ids = self._ids_of(text) if isinstance(text, str) else list(text)
        if not ids:
            raise InvalidRequest(f"Text {place} is empty. Send at least one character.", parameter="input")
        if len(ids) > self._context_size:
            raise ContextLengthExceeded(
                f"Text {place} has at least {len(ids)} tokens, but the model takes {self._context_size}. Shorten or "
                "split it.",
                context_size=self._context_size,
                prompt_tokens=len(ids),
                max_tokens=0,
            )
        if not all(0 <= token < self._vocabulary for token in ids):
            raise InvalidRequest(
                f"Text {place} has a token that this model does not have: ids are from 0 to {self._vocabulary - 1}.",
                parameter="input",
            )
        return ids

    def _ids_of(self, text: str) -> list[int]:
        """Of a text that is far too long, those of its beginning: enough to be refused by, and soon there."""
        beginning = self._tokenizer.encode(text[: MANY_CHARACTERS * self._context_size])
        if len(text) <= MANY_CHARACTERS * self._context_size or len(beginning) > 2 * self._context_size:
            return beginning
        return self._tokenizer.encode(text)

    @torch.inference_mode()
    def _run(self, batch: Sequence[list[int]]) -> Tensor:
        """Vectors of a batch, [texts, dimensions]."""
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
    """How the folder's sentence-transformers files say to pool: `cls` when they do, else `mean`.

    Raises ModelLoadFailed for a way of pooling that is neither, and for anything that is to follow it.
    """
    file = path / _pooling_folder(path) / "config.json"
    if not file.exists():
        return "mean"
    config = read_json(file)
    # Older folders have a flag a mode, newer ones the mode's name.
    modes = {
        key.removeprefix("pooling_mode_").split("_")[0] for key in config if "_mode_" in key and config[key] is True
    }
    modes.add(str(config.get("pooling_mode", "mean" if not modes else "")))
    modes.discard("")
    if modes == {"cls"}:
        return "cls"
    if modes == {"mean"}:
        return "mean"
    raise ModelLoadFailed("1_Pooling/config.json asks for a way of pooling other than mean or cls.")


def _pooling_folder(path: Path) -> str:
    """As modules.json names it. What that lists beside the modules that this code knows would change the vectors."""
    listing = path / "modules.json"
    modules = read_objects(listing) if listing.exists() else []
    folders = {str(module.get("type")).rpartition(".")[2]: str(module.get("path")) for module in modules}
    if unknown := folders.keys() - MODULES:
        raise ModelLoadFailed(f"modules.json asks for {', '.join(sorted(unknown))}, which is not supported.")
    folder = folders.get("Pooling", "1_Pooling")
    if Path(folder).name != folder:
        raise ModelLoadFailed("modules.json names a folder that is not in the model's.")
    return folder


def position_limit(model: PreTrainedModel) -> list[int]:
    """How long a text may be, where the model's positions count from behind the padding's own: RoBERTa's family."""
    tables = [module for name, module in model.named_modules() if name.endswith("position_embeddings")]
    return [
        table.num_embeddings - table.padding_idx - 1
        for table in tables
        if isinstance(table, torch.nn.Embedding) and table.padding_idx is not None
    ]


def read_max_length(path: Path) -> list[int]:
    """The limit of the folder's sentence-transformers file, if it has one."""
    file = path / "sentence_bert_config.json"
    limit = read_json(file).get("max_seq_length") if file.exists() else None
    return [limit] if isinstance(limit, int) else []
