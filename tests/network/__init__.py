"""Network faults between processes: a relay with a seeded plan, operations, and a model of what must hold; slow readers."""
