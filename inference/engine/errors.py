"""Errors of the engine. A message tells its reader what to do; `details` are plain data for the wire."""

from typing import Any

RESTART_SECONDS = 2  # of a small model; an earlier request waits for the restart


class EngineError(Exception):
    """Base of all errors of the engine. `code` is the class name, which crosses the socket."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    @property
    def code(self) -> str:
        return type(self).__name__


class InvalidRequest(EngineError):
    """An invalid parameter, or a model that lacks a requested feature. The same request always fails."""


class ContextLengthExceeded(EngineError):
    """A prompt plus max_tokens beyond the context. details: context_size, prompt_tokens, max_tokens."""


class EngineOverloaded(EngineError):
    """A full queue or a draining model. details: retry_after (seconds), reason."""


class ModelNotLoaded(EngineError):
    """A model without a process. details: state, and retry_after while it loads or unloads."""


class ModelLoadFailed(EngineError):
    """A failed load. The message has the reason."""


class InferenceFailed(EngineError):
    """A failure of one request. The model continues with others."""


class EngineDied(EngineError):
    """A model process that ended during a request. The host restarts it. details: reason, retry_after."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message, **{"reason": "model_restarting", "retry_after": RESTART_SECONDS} | details)


class DeadlineExceeded(EngineError):
    """A generation that exceeded its time limit."""


class HostUnavailable(EngineError):
    """A model host that does not answer on its socket."""
