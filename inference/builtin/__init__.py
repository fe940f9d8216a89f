"""Built-in models, and the recipes that trained them.

`DESCRIBER` writes product descriptions, and `ENCODER` turns a sentence into a vector. Each is a folder that
transformers loads; the folder's name is the model's id. `WRITER` is an adapter of SmolLM2-135M-Instruct that writes
product descriptions. Everything else is for training: `corpus` makes texts, `train` learns from them, `evaluate`
measures.
"""

from pathlib import Path

DESCRIBER = Path(__file__).parent / "stoa-describer"
ENCODER = Path(__file__).parent / "stoa-encoder"
WRITER = Path(__file__).parent / "stoa-writer"

__all__ = ["DESCRIBER", "ENCODER", "WRITER"]
