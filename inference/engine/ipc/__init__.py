"""IPC: clients and servers of the engine over Unix sockets, with length-prefixed msgpack frames.

`HostClient` and `EngineClient` are the clients' side; `ModelServer` serves one model in its process. `frames` are the
messages and `Channel` sends them.
"""

from inference.engine.ipc import frames
from inference.engine.ipc.channel import Channel, FrameError
from inference.engine.ipc.connection import GenerationStream
from inference.engine.ipc.engine_client import HOST_SOCKET, EngineClient, HostClient
from inference.engine.ipc.frames import StepOutput
from inference.engine.ipc.interface import ModelInterface
from inference.engine.ipc.server import ModelServer

__all__ = [
    "HOST_SOCKET",
    "Channel",
    "EngineClient",
    "FrameError",
    "GenerationStream",
    "HostClient",
    "ModelInterface",
    "ModelServer",
    "StepOutput",
    "frames",
]
