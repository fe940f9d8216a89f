"""One running demo for all end-to-end tests, in every folder."""

from tests.running_stoa import stoa  # noqa: F401
