"""A fake loader without torch, for tests of the processes. Its model generates "w0 w1 w2 ...", and fails on request.

The name of the model folder selects the load: `slow...` takes a second, `broken...` fails, `crashing...` ends the
process, `forking...` waits for a child that hangs, as the probe of a chat template may, `embedder...` is an encoder,
`reranker...` a cross-encoder, `labeler...` a classifier. Every load adds a line to the file `loads`; the file `memory`
has the bytes that the load reports, and `memory-3` those of one with max_sequences 3. `meminfo`, a link to the file by
which hosts know the machine's memory, is given the text of `meminfo-loaded` at the end of the load.

The prompt selects the generation:

* `die`, `kill`, `swell`: end the process by a fault, by SIGKILL, or for lack of memory.
* `long`, `full`, `bug`, `panic`: fail at submission.
* `shout`: 64 KiB per token. `silence`: no token until the timeout.
* A last message `call` with tools: a call of the first tool, in two pieces.
* `introduce`: user and parameters. `whence`: the traceparent. `repeat ...`: the rest of the prompt.
* `where...`: the process's id, its GPUs and its threads. `cores`: how many of 8 threads it may use.

The text `slow` takes a second to tokenize, also as a prompt. The text `for ever` is embedded until it is cancelled.
"""

import json
import os
import resource
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from math import log
from pathlib import Path

from inference.engine.core_budget import release_cores, take_cores
from inference.engine.errors import ContextLengthExceeded, EngineOverloaded, InvalidRequest, ModelLoadFailed
from inference.engine.model_status import EngineStats, LoadOptions, LoadReport
from inference.engine.outputs import (
    EmbeddingResult,
    FinishReason,
    GenerationOutput,
    RequestTimings,
    ScoringResult,
    TokenizationResult,
    TokenLogprob,
    ToolCallDelta,
    Usage,
)
from inference.engine.prompt_limits import PromptLimits
from inference.engine.requests import EmbeddingRequest, GenerationRequest, ScoringRequest, TokenizationRequest

STEP_SECONDS = 0.01
CACHE_BYTES = 8192
CALL_ARGUMENTS = ('{"product":', ' "lamp"}')
Emit = Callable[[list[GenerationOutput]], None]


class Panic(BaseException):
    """A panic as Rust libraries raise it."""


@dataclass
class Speech:
    """A running generation: all choices get a word in each step."""

    request: GenerationRequest
    began: float = field(default_factory=time.monotonic)
    spoken: int = 0
    cancelled: bool = False

    @property
    def late(self) -> bool:
        return self.request.timeout is not None and time.monotonic() > self.began + self.request.timeout

    @property
    def stages(self) -> RequestTimings | None:
        now = time.monotonic()
        return (
            RequestTimings(self.began, self.began, min(self.began + STEP_SECONDS, now), now)
            if self.request.traceparent
            else None
        )


class FakeEngine:
    def __init__(self, options: LoadOptions, emit: Emit) -> None:
        self.limits = PromptLimits(context_size=options.context_size or 2**30, longest_token=1)
        self._slots = options.max_sequences
        self._emit = emit
        self._speeches: dict[str, Speech] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, request: GenerationRequest, arrived_at: float | None = None) -> Usage:
        if request.prompt == "long":
            raise ContextLengthExceeded("Too long.", context_size=8, prompt_tokens=9, max_tokens=1)
        if request.prompt == "full":
            raise EngineOverloaded("Too many wait.", retry_after=7, reason="queue_full")
        if request.prompt == "slow":
            time.sleep(1)
        if request.prompt == "bug":
            raise TypeError("a bug")
        if request.prompt == "panic":
            raise Panic("at the disco")
        with self._lock:
            assert request.request_id not in self._speeches
            self._speeches[request.request_id] = Speech(request, arrived_at or time.monotonic())
        return Usage(len(request.prompt or ""), 0)

    def score(
        self, request: ScoringRequest, cancelled: threading.Event, arrived_at: float | None = None
    ) -> Future[ScoringResult]:
        """An answer's probability is its share of the answers' letters. `for ever` in the context is not answered."""
        scores: Future[ScoringResult] = Future()
        if "for ever" not in request.context:
            rows = [[len(answer) for answer in question.answers] for question in request.questions]
            scores.set_result(
                ScoringResult(
                    request_id=request.request_id,
                    scores=tuple(tuple(length / sum(row) for length in row) for row in rows),
                    prompt_tokens=len(request.context) + sum(len(question.text) for question in request.questions),
                    cached_tokens=len(request.context) if len(rows) > 1 else 0,
                    cache_write_tokens=len(request.context),
                )
            )
        return scores

    def cancel(self, request_id: str) -> None:
        with self._lock:
            if request_id in self._speeches:
                self._speeches[request_id].cancelled = True

    def tokenize(self, request: TokenizationRequest) -> TokenizationResult:
        if request.text == "slow":
            time.sleep(1)
        return _tokens(request)

    def detokenize(self, ids: list[int]) -> str:
        return _text(ids)

    def stats(self) -> EngineStats:
        with self._lock:
            running = min(len(self._speeches), self._slots)
            waiting = len(self._speeches) - running
            return EngineStats(running=running, waiting=waiting, slots=self._slots, cache_bytes=CACHE_BYTES)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _loop(self) -> None:
        while not self._stopping.wait(STEP_SECONDS):
            with self._lock:
                if not self._speeches:
                    release_cores()
                speeches = list(self._speeches.values())[: self._slots]
                outputs = [output for speech in speeches for output in self._speak(speech)]
            if outputs:
                self._emit(outputs)
        with self._lock:
            speeches = list(self._speeches.values())
            for speech in speeches:
                speech.cancelled = True
            self._emit([output for speech in speeches for output in self._speak(speech)])

    def _speak(self, speech: Speech) -> list[GenerationOutput]:
        """Return a word or the end of every choice."""
        request, index = speech.request, speech.spoken
        if request.prompt == "die":
            print("the fake was told to die", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGSEGV)
            time.sleep(10)
        if request.prompt == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if request.prompt == "swell":
            _use_up_memory()
        broken = FinishReason.CANCELLED if speech.cancelled else FinishReason.ERROR if speech.late else None
        if request.prompt == "silence" and not broken:
            return []
        speech.spoken += not broken
        last = speech.spoken == (request.sampling.max_tokens or 10)
        calls = _call_pieces(request, index) if not broken else ()
        called = FinishReason.TOOL_CALLS if calls and index == len(CALL_ARGUMENTS) - 1 else None
        finish_reason = broken or called or (FinishReason.LENGTH if last else None)
        if finish_reason is not None:
            del self._speeches[request.request_id]
        usage = Usage(
            len(request.prompt or ""),
            speech.spoken * request.n,
            cached_tokens=len(request.prompt or "") // 2,
            timings=speech.stages if finish_reason else None,
        )
        return [
            GenerationOutput(
                request_id=request.request_id,
                index=index,
                text="" if broken or calls else _word(request, index),
                logprobs=() if broken or calls or request.sampling.logprobs is None else (_logprob(index),),
                tool_calls=calls,
                choice=choice,
                finish_reason=finish_reason,
                usage=usage if finish_reason and choice == request.n - 1 else None,
                error="Too late." if broken is FinishReason.ERROR else None,
                error_code="TIMEOUT" if broken is FinishReason.ERROR else None,
            )
            for choice in range(request.n)
        ]


def _call_pieces(request: GenerationRequest, index: int) -> tuple[ToolCallDelta, ...]:
    if not (request.tools and request.messages and request.messages[-1].content == "call"):
        return ()
    id_and_name = ("call_0", request.tools[0].name) if index == 0 else (None, None)
    return (ToolCallDelta(0, *id_and_name, CALL_ARGUMENTS[index]),)


def _logprob(index: int) -> TokenLogprob:
    """Return a probability of a half for the word, and of a quarter for another."""
    word, other = f"w{index} ", "other "
    top = (TokenLogprob(0, word, word.encode(), log(0.5)), TokenLogprob(1, other, other.encode(), log(0.25)))
    return TokenLogprob(0, word, word.encode(), log(0.5), top)


def _use_up_memory() -> None:
    """Abort as a library does when it gets no memory."""
    resource.setrlimit(resource.RLIMIT_AS, (2**20, 2**20))
    try:
        bytearray(2**40)
    except MemoryError:
        os.abort()


def _word(request: GenerationRequest, index: int) -> str:
    if request.prompt == "introduce":
        return f"{request.user} n={request.n} timeout={request.timeout} priority={request.priority} "
    if request.prompt and request.prompt.startswith("where"):
        return f"{os.getpid()} {os.environ.get('CUDA_VISIBLE_DEVICES')} {os.environ.get('OMP_NUM_THREADS')} "
    if request.prompt == "cores":
        return f"{take_cores(8)} "
    if request.prompt == "whence":
        return str(request.traceparent)
    if request.prompt and request.prompt.startswith("repeat "):
        return request.prompt.removeprefix("repeat ")
    return "x" * 65536 if request.prompt == "shout" else f"w{index} "


def _tokens(request: TokenizationRequest) -> TokenizationResult:
    """Return bytes as tokens. A conversation is the words of its messages after their roles."""
    if request.messages:
        parts = [f"{message.role}:{message.content};" for message in request.messages]
        text = "".join([*(f"{tool.name}()" for tool in request.tools), *parts])
    else:
        text = ("^" if not request.add_special_tokens else "") + (request.text or "")
    data = text.encode()
    return TokenizationResult(tuple(data), tuple(chr(byte) for byte in data), 4096)


def _text(ids: list[int]) -> str:
    if not all(0 <= token < 256 for token in ids):
        raise InvalidRequest("Token ids are from 0 to 255.", parameter="tokens")
    return bytes(ids).decode(errors="replace")


class FakeEncoder:
    """A text's score is the share of its letters that its query has; a label's, the share that its name has."""

    kind = "is a cross-encoder, which scores texts for a query"
    labels: tuple[str, ...] = ()

    def tokenize(self, request: TokenizationRequest) -> TokenizationResult:
        return _tokens(request)

    def detokenize(self, ids: list[int]) -> str:
        return _text(ids)

    def score(self, request: ScoringRequest, cancelled: threading.Event) -> ScoringResult:
        if "for ever" in request.texts:
            cancelled.wait()
        if bool(request.queries) == bool(self.labels):
            capability = "rerank" if request.queries else "classification"
            raise InvalidRequest(f"The model {self.kind}.", capability=capability)
        queries = request.queries * len(request.texts) if len(request.queries) == 1 else request.queries
        rows = [self.labels for _ in request.texts] if self.labels else [(query,) for query in queries]
        return ScoringResult(
            request_id=request.request_id,
            scores=tuple(
                tuple(sum(letter in other for letter in text) / len(text) for other in others)
                for text, others in zip(request.texts, rows, strict=True)
            ),
            labels=self.labels,
            prompt_tokens=sum(map(len, (*request.texts, *queries))),
        )


class FakeLabeler(FakeEncoder):
    kind = "is a classifier with 3 labels"
    labels = ("hate", "threat", "safe")


class FakeEmbedder(FakeEncoder):
    kind = "makes embeddings"

    def embed(self, request: EmbeddingRequest, cancelled: threading.Event) -> EmbeddingResult:
        if "for ever" in request.texts:
            cancelled.wait()
        last = 2.0 if request.one_core and request.batch else 1.0
        vectors = tuple(struct.pack("<2f", len(text), last) for text in request.texts)
        return EmbeddingResult(request_id=request.request_id, dimensions=2, vectors=vectors, prompt_tokens=1)


@dataclass
class FakeModel:
    report: LoadReport
    engine: FakeEngine | None = None
    embedder: FakeEmbedder | None = None
    classifier: FakeEncoder | None = None
    ballast: bytearray = field(default_factory=bytearray)


def load_model(model_id: str, path: Path, options: LoadOptions, emit: Emit, base: Path | None = None) -> FakeModel:
    with (path / "loads").open("a") as loads:
        loads.write(f"{os.getpid()}\n")
    if path.name.startswith("slow"):
        time.sleep(1)
    if path.name.startswith("forking"):
        child = os.fork()
        if child == 0:
            time.sleep(600)
            os._exit(0)
        os.waitpid(child, 0)
    if options.context_size == 0:
        raise InvalidRequest("`context_size` must be 1 or more.", parameter="context_size")
    if path.name.startswith("broken"):
        raise ModelLoadFailed("The weights are missing.")
    if path.name.startswith("crashing"):
        print("out of everything", file=sys.stderr, flush=True)
        os.abort()
    memory = next((file for file in (path / f"memory-{options.max_sequences}", path / "memory") if file.exists()), None)
    config = path / "config.json"
    limit = json.loads(config.read_text())["max_position_embeddings"] if config.exists() else 2**30
    context_size = min(options.context_size or 64, limit)
    is_clamped = options.context_size is not None and options.context_size > limit
    report = LoadReport(
        model_id=model_id,
        memory_usage_bytes=int(memory.read_text()) if memory else 1,
        load_time_ms=0,
        gpu_layers=0,
        context_size=context_size,
        batch_size=options.batch_size,
        max_sequences=options.max_sequences,
        dtype="float32",
        device="cpu",
        warning=f"context_size {options.context_size} is above the model's limit: {limit} is used."
        if is_clamped
        else None,
    )
    if (meminfo := path / "meminfo").exists():
        meminfo.write_text((path / "meminfo-loaded").read_text())
    if path.name.startswith("embedder"):
        return FakeModel(report, embedder=FakeEmbedder())
    if path.name.startswith("reranker"):
        return FakeModel(report, classifier=FakeEncoder())
    if path.name.startswith("labeler"):
        return FakeModel(report, classifier=FakeLabeler())
    return FakeModel(report, engine=FakeEngine(options, emit), ballast=bytearray(b"x" * 2**20))
