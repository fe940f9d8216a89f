"""Models: what computes logits and embeddings.

`Decoder` is the interface of a causal model to the engine loop: it runs `TokenSpan`s in cache slots. Importing this
package does not import torch. The loader imports the implementations from their modules: `decoders` (open_decoder
chooses among the Llama family's native and torch decoders and transformers' modelling code) and `embedder`.
"""

from inference.engine.models.interface import Decoder, TokenSpan
from inference.engine.models.kernel_build import (
    FOLDER_VARIABLE,
    build_in_background,
    build_kernels,
    compiled_kernels,
    kernels_built,
    kernels_pending,
    wait_for_kernels,
)

__all__ = [
    "FOLDER_VARIABLE",
    "Decoder",
    "TokenSpan",
    "build_in_background",
    "build_kernels",
    "compiled_kernels",
    "kernels_built",
    "kernels_pending",
    "wait_for_kernels",
]
