"""The synthetic corpus that the built-in models are trained on: conversations and query-text pairs about products.

It is generated on demand and never stored: example number n of a seed is the same on every machine. Import
`draw_example` and `draw_pair` for training, `draw_case` for evaluation.
"""

from inference.builtin.corpus.examples import DescriptionCase, Example, draw_case, draw_example, draw_pair

__all__ = ["DescriptionCase", "Example", "draw_case", "draw_example", "draw_pair"]
