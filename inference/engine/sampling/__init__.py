"""Sampling: the parameters with their bounds, and the next token of every running sequence.

Importing this package does not import torch. Other packages import the parameters from here, and the classes that need
torch from their modules: `sampler` (Sampler), `grammars` (structured output) and `logprobs`.
"""

from inference.engine.sampling.parameters import (
    SAMPLING_PARAMETERS,
    Bounds,
    ConstraintKind,
    Declaration,
    OutputConstraint,
    Parameter,
    SamplingParams,
    check_sampling,
    declared_parameters,
)

__all__ = [
    "SAMPLING_PARAMETERS",
    "Bounds",
    "ConstraintKind",
    "Declaration",
    "OutputConstraint",
    "Parameter",
    "SamplingParams",
    "check_sampling",
    "declared_parameters",
]
