"""Verification of a decoder at load: its logits of a few tokens must equal those of transformers' forward pass."""

import copy
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from inference.engine.models.checkpoint import Checkpoint
from inference.engine.models.interface import Decoder, TokenSpan

TOKEN_COUNT = 5
_from_config: Any = AutoModelForCausalLM.from_config


def verify(decoder: Decoder, reference: PreTrainedModel, *, slots: int, tolerance: float) -> None:
    """Prefill in chunks and decode beside another slot. Raise ValueError if the logits differ from the reference.

    tolerance: maximum difference, as a share of the largest logit.
    """
    ids = [token % reference.config.get_text_config().vocab_size for token in range(1, TOKEN_COUNT + 1)]
    with torch.inference_mode():
        expected = (
            reference(input_ids=torch.tensor([ids], device=reference.device), use_cache=False).logits[0].float().cpu()
        )
    last = min(slots, 2) - 1
    steps = [
        [TokenSpan(last, 0, ids[:2], all_logits=True)],
        [TokenSpan(last, 2, ids[2:4])],
        [TokenSpan(last, 4, ids[4:])],
    ]
    step_logits = [expected[:2], expected[3:4], expected[4:]]
    if last:
        steps[0] = [TokenSpan(0, 0, ids[:2], needs_logits=False), *steps[0]]
        steps[2] = [TokenSpan(0, 2, ids[2:3]), *steps[2]]
        step_logits[2] = expected[[2, 4]]
    for spans, logits in zip(steps, step_logits, strict=True):
        if not _close(decoder.run(spans), logits, tolerance * float(expected.abs().max())):
            raise ValueError("its logits differ from those of transformers' forward pass")


def _close(actual: Tensor, expected: Tensor, distance: float) -> bool:
    return actual.shape == expected.shape and bool(((actual - expected).abs() <= distance).all())


def first_layer(config: PreTrainedConfig, checkpoint: Checkpoint) -> PreTrainedModel:
    """Return transformers' model of a truncated checkpoint."""
    of = checkpoint.architecture
    truncated: Any = copy.deepcopy(config)
    truncated.num_hidden_layers, truncated.vocab_size, truncated.pad_token_id = of.layers, of.vocabulary, None
    if getattr(truncated, "layer_types", None):
        truncated.layer_types = truncated.layer_types[: of.layers]
    with torch.device("meta"):
        model: Any = _from_config(truncated, dtype=torch.float32)
    model.load_state_dict(checkpoint.state(), strict=False, assign=True)
    model.tie_weights()
    model.model.rotary_emb = type(model.model.rotary_emb)(config=truncated)
    if hasattr(model.model.embed_tokens, "embed_scale"):  # it has no values, either, and is no weight
        model.model.embed_tokens.embed_scale = torch.tensor(of.embedding_scale)
    reference: PreTrainedModel = model.eval()
    return reference
