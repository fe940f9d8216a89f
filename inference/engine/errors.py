"""What can go wrong in the engine. A message tells its reader what to do; `details` are plain data for the wire."""

from typing import Any

RESTARTS_IN_S = 2  # seconds, of a small model; who asks earlier waits for it


class EngineError(Exception):
    """Base of all. `code` names the class over the socket."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    @property
    def code(self) -> str:
        return type(self).__name__


class InvalidRequest(EngineError):
    """The request can never work as it stands: a bad parameter, or a model that cannot do what is asked."""


class ContextLengthExceeded(EngineError):
    """Prompt plus max_tokens do not fit. details: context_size, prompt_tokens, max_tokens."""


class EngineOverloaded(EngineError):
    """The queue is full or the model is draining. details: retry_after (seconds), reason."""


class ModelNotLoaded(EngineError):
    """No process runs this model. details: state, and retry_after while it loads or unloads."""


class ModelLoadFailed(EngineError):
    """The model could not be loaded; the message has the reason."""


class InferenceFailed(EngineError):
    """The model could not finish this one request, and goes on with others."""


class EngineDied(EngineError):
    """The model process ended while it worked on this; the host starts it again. details: reason, retry_after."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message, **{"reason": "model_restarting", "retry_after": RESTARTS_IN_S} | details)


class DeadlineExceeded(EngineError):
    """The request's time limit passed before the generation was whole."""


class HostUnavailable(EngineError):
    """No model host answers on its socket."""
