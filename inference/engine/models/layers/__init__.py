"""Layers of decoders in torch's operations: matrices, attention of a step's spans, and the stack of layers."""
