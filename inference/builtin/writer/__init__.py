"""Recipe of `stoa-writer`: a LoRA of SmolLM2-135M-Instruct that states the given facts of a product."""
