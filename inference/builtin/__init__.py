"""The two models that come with the house, and the recipe that made them.

`DESCRIBER` writes product descriptions, `ENCODER` turns a sentence into a vector. Each is a folder that transformers
loads as it is; the folder's name is the model's. Nothing else here is needed at run time: `corpus` makes the text,
`train` learns from it, `evaluate` measures what came of it.
"""

from pathlib import Path

DESCRIBER = Path(__file__).parent / "stoa-describer"
ENCODER = Path(__file__).parent / "stoa-encoder"

__all__ = ["DESCRIBER", "ENCODER"]
