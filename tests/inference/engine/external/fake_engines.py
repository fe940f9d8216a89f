"""Engines whose servers are the fake one, and a host that runs models on them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from inference.engine.external import ENGINE_KINDS
from tests.inference.engine.processes import start_program

FAKE = Path(__file__).with_name("fake_server.py")
EXECUTABLES = {"vllm": "python", "llama.cpp": "llama-server", "sglang": "python"}
KINDS = tuple(ENGINE_KINDS)


class Engines:
    """A folder of installed engines, each of which is the fake, and a model that they can load."""

    def __init__(self, root: Path, model: Path, gguf: Path) -> None:
        self.root, self._model, self._gguf = root, model, gguf
        for kind in KINDS:
            executable = self.folder(kind) / "bin" / EXECUTABLES[kind]
            executable.parent.mkdir(parents=True)
            executable.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE} {kind} "$@"\n')
            executable.chmod(0o700)
            (self.folder(kind) / "cache").mkdir()
            (self.folder(kind) / "installed.json").write_text("{}")

    def folder(self, kind: str) -> Path:
        return self.root / f"{kind}-{ENGINE_KINDS[kind].version}"

    def model(self, kind: str) -> Path:
        return self._gguf if kind == "llama.cpp" else self._model

    def behave(self, kind: str, behaviour: str) -> None:
        (self.folder(kind) / "behaviour").write_text(behaviour)

    def started(self, kind: str) -> Any:
        return json.loads((self.folder(kind) / "started.json").read_text())

    def hang_ups(self, kind: str) -> int:
        """Return how many requests were cancelled before their end."""
        file = self.folder(kind) / "hang-ups"
        return len(file.read_text()) if file.exists() else 0

    def requests(self, kind: str) -> list[Any]:
        return [json.loads(line)["body"] for line in (self.folder(kind) / "requests.jsonl").read_text().splitlines()]


def start_host(engines: Path, run_dir: Path) -> subprocess.Popen[str]:
    program = "from inference.engine.host.__main__ import main; main()"
    return start_program(program, "--run-dir", str(run_dir), "--engines-dir", str(engines))
