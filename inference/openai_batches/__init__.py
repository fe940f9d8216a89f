"""Batches in OpenAI's form: files in, the jobs of `inference.batches`, files out."""
