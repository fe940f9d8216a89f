"""Files in OpenAI's form: what batches are made of, and what came of them. `services` stores and removes."""
