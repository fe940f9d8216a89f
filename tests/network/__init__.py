"""Network faults between processes: a relay with a seeded plan, operations, a model of what must hold. Slow readers."""
