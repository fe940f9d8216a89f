"""A look at every model as it is loaded: a few tokens through the slots must give what transformers' forward gives."""

import copy
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from inference.engine.models.checkpoint import Checkpoint
from inference.engine.models.interface import Decoder, Span

TOKENS = 5
_from_config: Any = AutoModelForCausalLM.from_config


def verify(decoder: Decoder, reference: PreTrainedModel, *, slots: int, tolerance: float) -> None:
    """Prefills in chunks and decodes beside another slot. `tolerance` is a share of the largest logit.

    Raises ValueError when the logits differ from those of `reference`.
    """
    ids = [token % reference.config.get_text_config().vocab_size for token in range(1, TOKENS + 1)]
    with torch.inference_mode():
        expected = reference(input_ids=torch.tensor([ids]), use_cache=False).logits[0]
    last = min(slots, 2) - 1
    steps = [[Span(last, 0, ids[:2], all_logits=True)], [Span(last, 2, ids[2:4])], [Span(last, 4, ids[4:])]]
    wanted = [expected[:2], expected[3:4], expected[4:]]
    if last:
        steps[0] = [Span(0, 0, ids[:2], needs_logits=False), *steps[0]]
        steps[2] = [Span(0, 2, ids[2:3]), *steps[2]]
        wanted[2] = expected[[2, 4]]
    for spans, logits in zip(steps, wanted, strict=True):
        if not _close(decoder.run(spans), logits, tolerance * float(expected.abs().max())):
            raise ValueError("its answers differ from those of transformers' own forward")


def _close(got: Tensor, wanted: Tensor, distance: float) -> bool:
    return got.shape == wanted.shape and bool(((got - wanted).abs() <= distance).all())


def first_layer(config: PreTrainedConfig, checkpoint: Checkpoint) -> PreTrainedModel:
    """transformers' model of a truncated checkpoint: its code for the first layer, over few tokens."""
    of = checkpoint.architecture
    short: Any = copy.deepcopy(config)
    short.num_hidden_layers, short.vocab_size, short.pad_token_id = of.layers, of.vocabulary, None
    if getattr(short, "layer_types", None):
        short.layer_types = short.layer_types[: of.layers]
    with torch.device("meta"):
        model: Any = _from_config(short, dtype=torch.float32)
    model.load_state_dict(checkpoint.state(), strict=False, assign=True)
    model.tie_weights()
    model.model.rotary_emb = type(model.model.rotary_emb)(config=short)
    reference: PreTrainedModel = model.eval()
    return reference
