"""These tests use all of Stoa from outside, as its users do."""

from tests.running_stoa import stoa  # noqa: F401
