"""Kernels are compiled once a machine, and quietly not where that cannot be done."""

import ctypes
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from inference.engine.host.loading import load_model
from inference.engine.model_status import LoadOptions
from inference.engine.models import llama_family
from inference.engine.models.kernel_build import FOLDER_VARIABLE, build_in_background, build_kernels, compiled_kernels
from inference.engine.models.llama_decoder import LlamaDecoder
from inference.engine.models.llama_family import Kernels
from inference.engine.models.native_decoder import NativeDecoder
from inference.engine.outputs import GenerationOutput
from inference.engine.requests import GenerationRequest
from tests.inference.engine.engine_runner import GREEDY, Collector
from tests.inference.engine.tiny_models import letter_tokenizer, save_causal

pytestmark = pytest.mark.timeout(400)  # a compiler at work on a busy machine


def text_of(outputs: Sequence[GenerationOutput]) -> str:
    return "".join(output.text for output in outputs)


def eventually(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until, "it did not come to hold"
        time.sleep(0.05)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "compiled"))
    return tmp_path / "compiled"


def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Puts a compiler that is this shell script first."""
    (tmp_path / "bin").mkdir(exist_ok=True)
    file = tmp_path / "bin" / "c++"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")


def test_without_a_folder_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    assert not build_kernels()
    assert compiled_kernels() is None


def test_without_a_compiler_nothing_is_compiled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert not build_kernels()
    assert compiled_kernels() is None


def test_a_failed_build_leaves_no_library(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(tmp_path, monkeypatch, "echo half > $(echo $@ | sed 's/.*-o //'); exit 1")
    assert not build_kernels()
    assert compiled_kernels() is None
    assert list(folder.glob("*.so")) == []


def test_a_library_that_does_not_load_is_not_used(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path, monkeypatch, "echo nonsense > $(echo $@ | sed 's/.*-o //')")
    assert build_kernels()
    assert compiled_kernels() is None


def test_a_library_that_does_not_load_is_built_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path, monkeypatch, f"echo once >> {tmp_path}/builds; echo nonsense > $(echo $@ | sed 's/.*-o //')")
    for _ in range(2):
        assert build_kernels()
        assert compiled_kernels() is None
    assert (tmp_path / "builds").read_text() == "once\nonce\n"


def test_an_existing_library_is_not_built_again(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(tmp_path, monkeypatch, f"echo once >> {tmp_path}/builds; touch $(echo $@ | sed 's/.*-o //')")
    assert build_kernels()
    assert build_kernels()
    assert (tmp_path / "builds").read_text() == "once\n"


def test_a_host_builds_kernels_in_the_background(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler(tmp_path, monkeypatch, "touch $(echo $@ | sed 's/.*-o //')")
    build_in_background(folder)
    assert build_kernels()
    assert len(list(folder.glob("*.so"))) == 1


def test_another_compiler_builds_another_library(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for comment in ("# one", "# two"):
        compiler(tmp_path, monkeypatch, f"{comment}\ntouch $(echo $@ | sed 's/.*-o //')")
        assert build_kernels()
    assert len(list(folder.glob("*.so"))) == 2


def test_the_library_uses_the_vector_width_of_this_machine(kernels: ctypes.CDLL) -> None:
    assert kernels.vector_width() in (8, 16)


def test_a_busy_model_switches_to_the_built_library_and_gives_the_same_text(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernels: ctypes.CDLL
) -> None:
    compiler(tmp_path, monkeypatch, f"cp {kernels._name} $(echo $@ | sed 's/.*-o //')")  # compiled once for all tests
    # Which is the faster may depend on the moment.
    monkeypatch.setattr(llama_family, "fastest_kernels", lambda *given: Kernels(compiled_kernels(), 1))
    collector, options = Collector(), LoadOptions(max_sequences=2, context_size=64)
    loaded = load_model("tiny", save_causal(tmp_path / "tiny", "llama", letter_tokenizer()), options, collector.emit)
    engine = loaded.engine
    assert engine is not None
    assert loaded.report.kernels == "torch"
    asked: list[str] = []

    def ask() -> None:
        """Submit the next request during this one, so that the engine is never idle."""
        asked.append(str(len(asked)))
        collector.at_token[asked[-1], 20] = ask
        engine.submit(GenerationRequest(request_id=asked[-1], prompt="a-warm-lamp", sampling=GREEDY))

    engine.start()
    try:
        ask()
        assert isinstance(engine.decoder, LlamaDecoder)
        assert build_kernels()
        eventually(lambda: isinstance(engine.decoder, NativeDecoder))
        taken_up = len(asked)
        eventually(lambda: len(asked) > taken_up + 3)
        texts = {text_of(collector.outputs(name)) for name in asked[: taken_up + 2]}
        assert len(texts) == 1
    finally:
        engine.stop()
