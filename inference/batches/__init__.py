"""Batches: jobs of many requests that are done in the background, and never lost once they were accepted.

Others use `services` (create, cancel, retry), `results` (what came of a batch, in request order) and the models.
"""
