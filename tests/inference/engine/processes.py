"""Real model hosts for tests, with the fake model in their processes."""

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from inference.engine import (
    EngineClient,
    EngineStats,
    GenerationOutput,
    GenerationRequest,
    GenerationStream,
    HostClient,
    HostOptions,
    ModelState,
    ModelStatus,
    SamplingParams,
)

REPOSITORY = Path(__file__).parents[3]
RUN_DIR = "TESTED_RUN_DIR"  # in the environment of a host and of all its processes

_PROGRAM = """
import sys
from pathlib import Path
import msgspec
from inference.engine import HostOptions, run_host
from inference.engine.host.supervision import HealthCheck
loader = "tests.inference.engine.fake_model:load_model"
policy = msgspec.json.decode(sys.argv[2], type=HostOptions)
run_host(Path(sys.argv[1]), loader=loader, health_check=HealthCheck(0.2, 6.0), policy=policy)
"""
# Without a cooldown; tests of cooldowns set one.
POLICY = HostOptions(first_cooldown=0)


@dataclass
class RunningHost:
    process: subprocess.Popen[str]
    run_dir: Path
    commands: HostClient
    engine: EngineClient

    def folder(self, name: str, memory: int | None = None) -> Path:
        """Return a model folder for the fake loader (see fake_model). memory: bytes that the load reports."""
        path = self.run_dir / "models" / name
        path.mkdir(parents=True, exist_ok=True)
        if memory is not None:
            (path / "memory").write_text(str(memory))
        return path

    async def pid(self, model_id: str) -> int:
        status = await status_of(self.commands, model_id)
        assert status is not None
        assert status.pid is not None
        return status.pid


def start_host(run_dir: Path, policy: HostOptions = POLICY, *, before: str = "") -> subprocess.Popen[str]:
    """Start a host with the fake model. before: statements that it executes first."""
    return start_program(before + _PROGRAM, str(run_dir), msgspec.json.encode(policy).decode())


def start_real_host(run_dir: Path) -> subprocess.Popen[str]:
    """Start a host as in production, which loads models with torch."""
    return start_program("from inference.engine.host.__main__ import main; main()", "--run-dir", str(run_dir))


@contextlib.contextmanager
def running_host(start: Callable[[Path], subprocess.Popen[str]] = start_host) -> Iterator[RunningHost]:
    """Run a host in a folder with a short path, as sockets need, and stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="stoa") as folder, start(Path(folder)) as process:
        run_dir = Path(folder)
        assert process.stdout is not None
        assert "ready" in process.stdout.readline()
        try:
            yield RunningHost(process, run_dir, HostClient(run_dir), EngineClient(run_dir))
        finally:
            process.terminate()
            process.wait(20)


def request(prompt: str = "speak", max_tokens: int = 5, request_id: str = "one") -> GenerationRequest:
    return GenerationRequest(request_id=request_id, prompt=prompt, sampling=SamplingParams(max_tokens=max_tokens))


async def read(stream: GenerationStream) -> list[GenerationOutput]:
    return [output async for output in stream]


async def eventually(holds: Callable[[], bool], seconds: float = 10) -> None:
    """Wait until the condition holds. Fail if it does not in time."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        await asyncio.sleep(0.02)


async def status_of(commands: HostClient, model_id: str) -> ModelStatus | None:
    return next((model for model in await commands.models() if model.model_id == model_id), None)


async def eventually_in_state(commands: HostClient, model_id: str, state: ModelState) -> ModelStatus:
    until = time.monotonic() + 20
    while (status := await status_of(commands, model_id)) is None or status.state is not state:
        assert time.monotonic() < until, status
        await asyncio.sleep(0.02)
    return status


async def eventually_idle(engine: EngineClient, model_id: str, seconds: float = 30) -> EngineStats:
    until = time.monotonic() + seconds
    while (stats := await engine.stats(model_id)).running or stats.waiting:
        assert time.monotonic() < until, stats
        await asyncio.sleep(0.02)
    return stats


def process_exists(pid: int) -> bool:
    """Return whether a process runs. A zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def start_program(program: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a Python program in the repository with its stdout in a pipe."""
    command = [sys.executable, "-c", program, *arguments]
    environment = os.environ | {RUN_DIR: next((argument for argument in arguments if argument.startswith("/")), "")}
    return subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, text=True)


def processes_with(run_dir: str) -> list[int]:
    """Return the processes that a host of this folder has started, even those whose parent has ended."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{RUN_DIR}={run_dir}\0".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return list(filter(process_exists, found))


def descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *descendants(child)]
    return found
