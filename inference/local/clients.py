"""This process's clients of the model host and of the model processes."""

from functools import cache
from pathlib import Path

from django.conf import settings

from inference.engine import EngineClient, HostClient


def host() -> HostClient:
    """Return a client of this machine's model host."""
    return HostClient(settings.RUN_DIR)


def engine() -> EngineClient:
    """Return the client of this machine's loaded models. A process has one, shared by all its event loops."""
    return _engine(settings.RUN_DIR)


@cache
def _engine(run_dir: Path) -> EngineClient:
    return EngineClient(run_dir)
