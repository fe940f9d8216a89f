"""Scheduling: the engine loop that runs many requests on one model, step by step.

Import `Engine` from here. A request passes `input_processor` (text to a `Generation`), `scheduler` with `fairness` and
`prefix_cache` (which sequences run, in which slots), `step` (the model's inputs) and `output_processor` (tokens to
outputs). The scheduler knows no tensor, and the model runner no request. Engines of others share all but the step.
"""

from inference.engine.scheduling.answers import AnswerProcessor
from inference.engine.scheduling.engine import Engine
from inference.engine.scheduling.scheduler import Scheduler
from inference.engine.scheduling.sequence import Generation, Sequence

__all__ = ["AnswerProcessor", "Engine", "Generation", "Scheduler", "Sequence"]
