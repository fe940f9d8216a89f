"""The real model loader with an audit log of the files it opens, processes it starts and addresses it connects to.

A model host takes it as its `loader`. The log is `<folder>.log` beside the model folder, one event per line.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from inference.engine import GenerationOutput, LoadOptions
from inference.engine.host.loading import LoadedModel
from inference.engine.host.loading import load_model as load_model_unaudited

AUDITED_EVENTS = (
    "open",
    "socket.connect",
    "subprocess.Popen",
    "os.exec",
    "os.system",
    "os.posix_spawn",
    "os.spawn",
    "import",
)


def load_model(
    model_id: str,
    path: Path,
    options: LoadOptions,
    emit: Callable[[list[GenerationOutput]], None],
    base: Path | None,
) -> LoadedModel:
    log = path.with_name(f"{path.name}.log").open("w", buffering=1)

    def write_event(event: str, arguments: tuple[object, ...]) -> None:
        if event in AUDITED_EVENTS:
            log.write(f"{event} {arguments[0]!r} {arguments[1] if event == 'open' else ''}\n")

    sys.addaudithook(write_event)
    return load_model_unaudited(model_id, path, options, emit, base)
