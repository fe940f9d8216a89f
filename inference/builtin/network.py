"""The network of both models: a plain Llama for training, whose weights transformers loads under its own names."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Shape:
    """The sizes of a Llama, as its config.json has them."""

    vocab_size: int = 3072
    hidden_size: int = 256
    intermediate_size: int = 704
    num_hidden_layers: int = 4
    num_attention_heads: int = 8
    num_key_value_heads: int = 4
    head_dim: int = 32
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-5
    max_position_embeddings: int = 1024


class BiaslessLinear(nn.Module):
    """A linear map without bias whose 32-bit weights work in the input's type."""

    def __init__(self, inputs: int, outputs: int, scale: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs) * scale / math.sqrt(inputs))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.to(x.dtype))


class Norm(nn.Module):
    """RMS normalisation."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape.hidden_size))
        self.eps = shape.rms_norm_eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.eps)


def causal_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention written out, [batch, heads, length, head_dim]; compiled, it trains short rows faster than the fused."""
    scores = (query @ key.transpose(-1, -2)).float() / math.sqrt(query.shape[-1])
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    return scores.masked_fill(later, float("-inf")).softmax(dim=-1).to(value.dtype) @ value


class Layer(nn.Module):
    """One decoder layer; queries, keys and values are one matrix, and so are gate and up."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        wide = shape.num_attention_heads * shape.head_dim
        both = 2 * shape.num_key_value_heads * shape.head_dim
        self.norm_attention, self.norm_mlp = Norm(shape), Norm(shape)
        self.qkv = BiaslessLinear(shape.hidden_size, wide + both, 0.6)
        self.out = BiaslessLinear(wide, shape.hidden_size, 0.0)
        self.gate_up = BiaslessLinear(shape.hidden_size, 2 * shape.intermediate_size, 0.6)
        self.down = BiaslessLinear(shape.intermediate_size, shape.hidden_size, 0.0)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return the layer's output. x: [batch, length, hidden]; cos, sin: [length, 1, head_dim / 2]."""
        shape, (batch, length, _) = self.shape, x.shape
        queries, keys = shape.num_attention_heads, shape.num_key_value_heads
        qkv = self.qkv(self.norm_attention(x)).view(batch, length, -1, shape.head_dim)
        first, second = qkv[:, :, : queries + keys].chunk(2, dim=-1)
        turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).transpose(1, 2)
        repeat = queries // keys
        key = turned[:, queries:].repeat_interleave(repeat, dim=1)
        value = qkv[:, :, queries + keys :].transpose(1, 2).repeat_interleave(repeat, dim=1)
        mixed = causal_attention(turned[:, :queries], key, value)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, -1))
        gate, up = self.gate_up(self.norm_mlp(x)).chunk(2, dim=-1)
        after: Tensor = x + self.down(F.silu(gate) * up)
        return after

    def named(self) -> dict[str, Tensor]:
        """Return the layer's weights under transformers' names, as views."""
        shape = self.shape
        wide, narrow = (n * shape.head_dim for n in (shape.num_attention_heads, shape.num_key_value_heads))
        query, key, value = torch.split(self.qkv.weight, [wide, narrow, narrow])
        gate, up = self.gate_up.weight.chunk(2)
        return {
            "self_attn.q_proj": query,
            "self_attn.k_proj": key,
            "self_attn.v_proj": value,
            "self_attn.o_proj": self.out.weight,
            "mlp.gate_proj": gate,
            "mlp.up_proj": up,
            "mlp.down_proj": self.down.weight,
            "input_layernorm": self.norm_attention.weight,
            "post_attention_layernorm": self.norm_mlp.weight,
        }


class Llama(nn.Module):
    """Token ids [batch, length] to final hidden states [batch, length, hidden] in bfloat16."""

    cos: Tensor
    sin: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Parameter(torch.randn(shape.vocab_size, shape.hidden_size) * 0.02)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.num_hidden_layers))
        self.norm = Norm(shape)
        half = shape.head_dim // 2
        turns = 1.0 / shape.rope_theta ** (torch.arange(half) / half)
        angles = torch.outer(torch.arange(shape.max_position_embeddings), turns)[:, None]
        self.register_buffer("cos", angles.cos().bfloat16(), persistent=False)
        self.register_buffer("sin", angles.sin().bfloat16(), persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = F.embedding(ids, self.embedding).bfloat16()
        length = ids.shape[1]
        for layer in self.layers:
            x = layer(x, self.cos[:length], self.sin[:length])
        hidden: Tensor = self.norm(x)
        return hidden

    def _named(self) -> dict[str, Tensor]:
        weights: dict[str, Tensor] = {"embed_tokens.weight": self.embedding, "norm.weight": self.norm.weight}
        for number, layer in enumerate(self.layers):
            if isinstance(layer, Layer):
                weights |= {f"layers.{number}.{name}.weight": weight for name, weight in layer.named().items()}
        return weights

    def exported(self) -> dict[str, Tensor]:
        """Return the weights in bfloat16 under transformers' names, without the ``model.`` in front."""
        return {name: weight.detach().bfloat16().contiguous() for name, weight in self._named().items()}

    @torch.no_grad()
    def take(self, weights: dict[str, Tensor]) -> None:
        """Takes over weights under transformers' names; the way back from `exported`."""
        for name, weight in self._named().items():
            weight.copy_(weights[name])
