"""A loader without torch, for tests of the processes: it says "w0 w1 w2 ...", and misbehaves on request.

The model folder's name says how it loads: `slow...` takes a second, `broken...` is refused, `crashing...` dies,
`embedder...` embeds. Every load adds a line to `loads` in the folder. A prompt says what its generation does: `die`
kills the process, `shout` makes 64 KiB a token, `long` and `bug` are refused, anything else is spoken to.
"""

import os
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from inference.engine.errors import ContextLengthExceeded, InvalidRequest, ModelLoadFailed
from inference.engine.request import (
    EmbeddingRequest,
    EmbeddingResult,
    EngineStats,
    FinishReason,
    GenerationOutput,
    GenerationRequest,
    LoadOptions,
    LoadReport,
    Usage,
)

STEP_SECONDS = 0.01
Emit = Callable[[list[GenerationOutput]], None]


@dataclass
class Speech:
    request: GenerationRequest
    spoken: int = 0
    cancelled: bool = False


class FakeEngine:
    def __init__(self, options: LoadOptions, emit: Emit) -> None:
        self._slots = options.max_sequences
        self._emit = emit
        self._speeches: dict[str, Speech] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, request: GenerationRequest) -> Usage:
        if request.prompt == "long":
            raise ContextLengthExceeded("Too long.", context_size=8, prompt_tokens=9, max_tokens=1)
        if request.prompt == "bug":
            raise TypeError("a bug")
        with self._lock:
            assert request.request_id not in self._speeches
            self._speeches[request.request_id] = Speech(request)
        return Usage(len(request.prompt or ""), 0)

    def cancel(self, request_id: str) -> None:
        with self._lock:
            if request_id in self._speeches:
                self._speeches[request_id].cancelled = True

    def tokenize(self, text: str) -> list[int]:
        return list(text.encode())

    def detokenize(self, ids: list[int]) -> str:
        return bytes(ids).decode()

    def stats(self) -> EngineStats:
        with self._lock:
            running = min(len(self._speeches), self._slots)
            return EngineStats(running=running, waiting=len(self._speeches) - running, slots=self._slots)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _loop(self) -> None:
        while not self._stopping.wait(STEP_SECONDS):
            with self._lock:
                outputs = [self._speak(speech) for speech in list(self._speeches.values())[: self._slots]]
            if outputs:
                self._emit(outputs)
        with self._lock:
            for speech in self._speeches.values():
                speech.cancelled = True
            self._emit([self._speak(speech) for speech in list(self._speeches.values())])

    def _speak(self, speech: Speech) -> GenerationOutput:
        request, index = speech.request, speech.spoken
        if request.prompt == "die":
            print("the fake was told to die", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGSEGV)
            time.sleep(10)
        speech.spoken += 1
        last = speech.spoken == (request.sampling.max_tokens or 10)
        finish_reason = FinishReason.CANCELLED if speech.cancelled else FinishReason.LENGTH if last else None
        if finish_reason is not None:
            del self._speeches[request.request_id]
        word = "x" * 65536 if request.prompt == "shout" else f"w{index} "
        return GenerationOutput(
            request_id=request.request_id,
            index=index,
            text="" if speech.cancelled else word,
            finish_reason=finish_reason,
            usage=Usage(len(request.prompt or ""), index + last) if finish_reason else None,
        )


class FakeEmbedder:
    def embed(self, request: EmbeddingRequest) -> EmbeddingResult:
        vectors = tuple(struct.pack("<2f", len(text), 1.0) for text in request.texts)
        return EmbeddingResult(request_id=request.request_id, dimensions=2, vectors=vectors, prompt_tokens=1)


@dataclass
class FakeModel:
    report: LoadReport
    engine: FakeEngine | None = None
    embedder: FakeEmbedder | None = None
    ballast: bytearray = field(default_factory=bytearray)


def load_model(model_id: str, path: Path, options: LoadOptions, emit: Emit) -> FakeModel:
    with (path / "loads").open("a") as loads:
        loads.write(f"{os.getpid()}\n")
    if path.name.startswith("slow"):
        time.sleep(1)
    if options.context_size == 0:
        raise InvalidRequest("`context_size` must be 1 or more.", parameter="context_size")
    if path.name.startswith("broken"):
        raise ModelLoadFailed("The weights are missing.")
    if path.name.startswith("crashing"):
        print("out of everything", file=sys.stderr, flush=True)
        os.abort()
    report = LoadReport(
        model_id=model_id,
        memory_usage_bytes=1,
        load_time_ms=0,
        gpu_layers=0,
        context_size=options.context_size or 64,
        batch_size=options.batch_size,
        max_sequences=options.max_sequences,
        dtype="float32",
        device="cpu",
    )
    if path.name.startswith("embedder"):
        return FakeModel(report, embedder=FakeEmbedder())
    return FakeModel(report, engine=FakeEngine(options, emit), ballast=bytearray(b"x" * 2**20))
