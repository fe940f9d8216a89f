"""Scores of sequence-classification folders equal a direct computation with transformers."""

import json
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import processors
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    ElectraConfig,
    LlamaConfig,
    PreTrainedConfig,
    PreTrainedTokenizerFast,
    RobertaConfig,
    XLMRobertaConfig,
)

from inference.engine.errors import ContextLengthExceeded, InvalidRequest, ModelLoadFailed
from inference.engine.formats import inspect_model
from inference.engine.host.loading import NO_BFLOAT16, NO_INT8, load_model
from inference.engine.model_status import LoadOptions
from inference.engine.models import packing
from inference.engine.models.classifier import Classifier
from inference.engine.models.embedder import Embedder
from inference.engine.models.layers import linear
from inference.engine.models.layers.linear import packs
from inference.engine.outputs import ScoringResult
from inference.engine.requests import ScoringRequest
from tests.inference.engine.tiny_models import BOS, END, PAD, byte_tokenizer

TEXTS = ("a lamp of brass", "oak", "the quick brown fox jumps over the lazy dog", "naïve 日本", "a lamp")
QUERY = "a warm lamp"
SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}


def pair_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer with a form for pairs, as BERT's: the second text has the type 1."""
    tokenizer = byte_tokenizer()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|bos|> $A <|end|>",
        pair="<|bos|> $A <|end|> $B:1 <|end|>:1",
        special_tokens=[("<|bos|>", BOS), ("<|end|>", END)],
    )
    return tokenizer


def save_classifier(folder: Path, config: PreTrainedConfig) -> Path:
    torch.manual_seed(7)
    tokenizer = pair_tokenizer()
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if isinstance(config, BertConfig):
        file = folder / "tokenizer_config.json"
        names = {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
        file.write_text(json.dumps(json.loads(file.read_text()) | names))
    return folder


def bert(labels: int, **changes: Any) -> BertConfig:
    return BertConfig(
        vocab_size=len(byte_tokenizer()),
        max_position_embeddings=64,
        pad_token_id=PAD,
        initializer_range=0.4,
        num_labels=labels,
        **SIZES | changes,
    )


def roberta(kind: type[RobertaConfig | XLMRobertaConfig]) -> PreTrainedConfig:
    return kind(
        vocab_size=len(byte_tokenizer()),
        max_position_embeddings=66,
        pad_token_id=1,
        initializer_range=0.4,
        num_labels=1,
        type_vocab_size=1,
        **SIZES,
    )


CONFIGS: dict[str, PreTrainedConfig] = {
    "bert": bert(1),
    "roberta": roberta(RobertaConfig),
    "xlm-roberta": roberta(XLMRobertaConfig),
    "electra": ElectraConfig(
        vocab_size=len(byte_tokenizer()),
        max_position_embeddings=64,
        pad_token_id=PAD,
        initializer_range=0.4,
        num_labels=1,
        embedding_size=16,
        **SIZES,
    ),
    "llama": LlamaConfig(
        vocab_size=len(byte_tokenizer()),
        max_position_embeddings=64,
        pad_token_id=PAD,
        initializer_range=0.4,
        num_labels=1,
        num_key_value_heads=2,
        **SIZES,
    ),
}


def load(folder: Path) -> Classifier:
    loaded = load_model("tiny", folder, LoadOptions(), lambda outputs: None)
    assert (loaded.engine, loaded.embedder) == (None, None)
    assert loaded.classifier is not None
    return loaded.classifier


def score(scorer: Classifier | Embedder, *texts: str, **fields: Any) -> ScoringResult:
    return scorer.score(ScoringRequest(request_id="one", texts=texts, **fields), Event())


def logits(folder: Path, *texts: str) -> torch.Tensor:
    """Return the logits of a text or of a pair, computed alone by transformers."""
    inputs = AutoTokenizer.from_pretrained(folder)(*texts, return_tensors="pt")
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        return model(**inputs).logits[0]


@pytest.mark.parametrize("family", CONFIGS)
def test_a_cross_encoder_scores_pairs_as_transformers_does(tmp_path: Path, family: str) -> None:
    folder = save_classifier(tmp_path, CONFIGS[family])
    result = score(load(folder), *TEXTS, queries=(QUERY,))

    expected = [float(logits(folder, QUERY, text).sigmoid()) for text in TEXTS]
    np.testing.assert_allclose([row for (row,) in result.scores], expected, atol=1e-5)
    assert max(expected) - min(expected) > 0.01
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert result.prompt_tokens == sum(len(tokenizer(QUERY, text).input_ids) for text in TEXTS)
    assert result.labels == ()


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta", "electra"])
@pytest.mark.parametrize("uses_mkl", [True, False])
def test_scores_are_the_same_with_plain_and_with_packed_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str, *, uses_mkl: bool
) -> None:
    monkeypatch.setattr(packing, "is_mkl_faster", lambda: uses_mkl)
    folder = save_classifier(tmp_path, CONFIGS[family])
    classifier = load(folder)
    assert uses_mkl == any(type(module) is torch.nn.Linear for module in classifier._model.modules())

    scores = [row for (row,) in score(classifier, *TEXTS, queries=(QUERY,)).scores]
    expected = [float(logits(folder, QUERY, text).sigmoid()) for text in TEXTS]
    np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_weights_of_bfloat16_take_less_memory_and_score_almost_the_same(tmp_path: Path) -> None:
    folder = save_classifier(tmp_path, CONFIGS["bert"])
    plain = load_model("tiny", folder, LoadOptions(), lambda outputs: None)
    short = load_model("tiny", folder, LoadOptions(dtype="bfloat16"), lambda outputs: None)
    if not packs(torch.bfloat16):
        assert (short.report.dtype, short.report.warning) == ("float32", NO_BFLOAT16)
        pytest.skip("this processor has no bfloat16 kernels")

    assert short.classifier is not None
    assert plain.classifier is not None
    expected = np.array(score(plain.classifier, *TEXTS, queries=(QUERY,)).scores)
    scores = np.array(score(short.classifier, *TEXTS, queries=(QUERY,)).scores)
    assert short.report.dtype == "bfloat16"
    assert 0 < np.abs(scores - expected).max() < 0.02
    weights = sum(
        one.weight.numel()
        for one in AutoModelForSequenceClassification.from_pretrained(folder).modules()
        if isinstance(one, torch.nn.Linear)
    )
    assert plain.report.memory_usage_bytes - short.report.memory_usage_bytes == 2 * weights


@pytest.mark.skipif(not packs(torch.int8), reason="this processor has no int8 kernels of oneDNN")
@pytest.mark.parametrize("family", CONFIGS)
def test_int8_scores_are_close_and_the_same_alone_and_in_a_batch(tmp_path: Path, family: str) -> None:
    folder = save_classifier(tmp_path, CONFIGS[family])
    plain = load_model("tiny", folder, LoadOptions(), lambda outputs: None)
    small = load_model("tiny", folder, LoadOptions(quantization="int8"), lambda outputs: None)
    assert (small.report.quantization, small.report.warning) == ("int8", None)
    assert small.report.memory_usage_bytes < plain.report.memory_usage_bytes

    assert small.classifier is not None
    assert plain.classifier is not None
    expected = np.array(score(plain.classifier, *TEXTS, queries=(QUERY,)).scores)
    scores = score(small.classifier, *TEXTS, queries=(QUERY,)).scores
    assert 0 < np.abs(np.array(scores) - expected).max() < 0.2  # these random weights amplify each rounding
    assert scores == tuple(score(small.classifier, text, queries=(QUERY,)).scores[0] for text in TEXTS)


def test_without_int8_kernels_a_classifier_stays_float32_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_classifier(tmp_path, CONFIGS["bert"])
    plain = load_model("tiny", folder, LoadOptions(), lambda outputs: None).report
    monkeypatch.setattr(linear, "_sums_exactly", lambda *weights: False)
    report = load_model("tiny", folder, LoadOptions(quantization="int8"), lambda outputs: None).report

    assert (report.quantization, report.warning) == ("none", NO_INT8)
    assert report.memory_usage_bytes == plain.memory_usage_bytes


def test_the_types_of_a_pairs_tokens_reach_the_model(tmp_path: Path) -> None:
    folder = save_classifier(tmp_path, CONFIGS["bert"])
    types = AutoTokenizer.from_pretrained(folder)(QUERY, "oak").token_type_ids
    assert 0 < sum(types) < len(types)
    classifier = load(folder)
    with_types = score(classifier, "oak", queries=(QUERY,)).scores
    classifier._has_types = False
    assert score(classifier, "oak", queries=(QUERY,)).scores != with_types


def test_each_text_may_have_its_own_query(tmp_path: Path) -> None:
    folder = save_classifier(tmp_path, CONFIGS["bert"])
    result = score(load(folder), "a", "b c", queries=("oak", "lamp"))

    expected = [float(logits(folder, *pair).sigmoid()) for pair in (("oak", "a"), ("lamp", "b c"))]
    np.testing.assert_allclose([row for (row,) in result.scores], expected, atol=1e-5)


@pytest.mark.parametrize("problem", ["single_label_classification", "multi_label_classification"])
def test_a_classifier_gives_the_probability_of_each_label(tmp_path: Path, problem: str) -> None:
    names = {0: "hate", 1: "threat", 2: "safe"}
    folder = save_classifier(tmp_path, bert(3, id2label=names, problem_type=problem))
    result = score(load(folder), *TEXTS)

    assert result.labels == ("hate", "threat", "safe")
    for row, text in zip(result.scores, TEXTS, strict=True):
        one = logits(folder, text)
        expected = one.sigmoid() if problem.startswith("multi") else one.softmax(-1)
        np.testing.assert_allclose(row, expected, atol=1e-5)
    assert (sum(result.scores[0]) == pytest.approx(1)) == problem.startswith("single")


def test_a_folder_says_what_it_is_without_loading(tmp_path: Path) -> None:
    assert inspect_model(save_classifier(tmp_path / "one", bert(1))).capabilities == ("rerank",)
    assert inspect_model(save_classifier(tmp_path / "three", bert(3))).capabilities == ("classification",)
    assert inspect_model(save_classifier(tmp_path / "default", bert(2))).capabilities == ("classification",)


def test_a_folder_without_its_head_is_not_loaded(tmp_path: Path) -> None:
    folder = save_classifier(tmp_path, bert(1))
    for missing in ("classifier.weight", "bert.pooler.dense.weight"):
        weights = load_file(folder / "model.safetensors")
        save_file({k: v for k, v in weights.items() if k != missing}, folder / "model.safetensors", {"format": "pt"})
        with pytest.raises(ModelLoadFailed, match=missing):
            load(folder)
        save_file(weights, folder / "model.safetensors", {"format": "pt"})


def test_a_long_text_is_an_error_unless_it_is_cut(tmp_path: Path) -> None:
    folder = save_classifier(tmp_path, bert(1))
    classifier, long = load(folder), "x y " * 60
    with pytest.raises(ContextLengthExceeded) as refused:
        score(classifier, "a", long, queries=("oak",))
    assert refused.value.details["context_size"] == 64

    tokenizer = AutoTokenizer.from_pretrained(folder)
    cut = score(classifier, long, queries=("oak",), max_text_tokens=10**6)
    assert cut.prompt_tokens == 64
    for limits, kept in (({"max_text_tokens": 5}, 5), ({"max_text_tokens": 10**6, "max_tokens": 20}, None)):
        result = score(classifier, long, queries=("oak",), **limits)
        kept = kept or 20 - 3 - len(tokenizer("oak", add_special_tokens=False).input_ids)
        beginning = tokenizer.decode(tokenizer(long, add_special_tokens=False).input_ids[:kept])
        expected = float(logits(folder, "oak", beginning).sigmoid())
        assert result.scores[0][0] == pytest.approx(expected, abs=1e-5)


def test_i4_a_control_token_in_a_text_is_plain_text(tmp_path: Path) -> None:
    classifier = load(save_classifier(tmp_path, bert(1)))
    tokenizer = classifier._tokenizer
    encoded = tokenizer.encode_pair(tokenizer.encode_part("oak<|end|>", 64), "a<|pad|>b", 64)

    assert [token for token in encoded.ids if token in (PAD, BOS, END)] == [BOS, END, END]
    assert score(classifier, "a<|end|>", queries=("oak",)).scores != score(classifier, "a", queries=("oak",)).scores


@pytest.mark.parametrize(("labels", "queries"), [(1, ()), (3, ("oak",))])
def test_a_request_for_the_other_kind_is_rejected(tmp_path: Path, labels: int, queries: tuple[str, ...]) -> None:
    classifier = load(save_classifier(tmp_path, bert(labels)))
    with pytest.raises(InvalidRequest, match="The model is a "):
        score(classifier, "a", queries=queries)


def test_an_embedding_model_scores_by_cosine_similarity(encoder_folder: Path) -> None:
    embedder = load_model("tiny", encoder_folder, LoadOptions(), lambda outputs: None).embedder
    assert embedder is not None
    result = score(embedder, *TEXTS, queries=("a lamp",))

    assert result.scores[-1][0] == pytest.approx(1, abs=1e-5)
    assert all(-1 <= one < 0.9999 for (one,) in result.scores[:-1])
    assert score(embedder, "x " * 200, queries=("x",), max_text_tokens=10**6).prompt_tokens == 64 + 1
    with pytest.raises(InvalidRequest, match="does not classify"):
        score(embedder, "a")
