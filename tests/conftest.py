"""One demo for all tests that use all of Stoa from outside, whatever folder they are in."""

from tests.running_stoa import stoa  # noqa: F401
