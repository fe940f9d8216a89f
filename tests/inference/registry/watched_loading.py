"""The real loader, with what it opens, runs and connects to written down beside the model folder.

Its module is what a model host is told to load with; the log is `<folder>.log`, one event a line.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from inference.engine import GenerationOutput, LoadOptions
from inference.engine.loading import LoadedModel
from inference.engine.loading import load_model as really_load

WATCHED = ("open", "socket.connect", "subprocess.Popen", "os.exec", "os.system", "os.posix_spawn", "os.spawn", "import")


def load_model(
    model_id: str, path: Path, options: LoadOptions, emit: Callable[[list[GenerationOutput]], None]
) -> LoadedModel:
    log = path.with_name(f"{path.name}.log").open("w", buffering=1)

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event in WATCHED:
            log.write(f"{event} {arguments[0]!r} {arguments[1] if event == 'open' else ''}\n")

    sys.addaudithook(watch)
    return really_load(model_id, path, options, emit)
