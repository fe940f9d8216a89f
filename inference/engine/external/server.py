"""An engine's server: its command line, its start until it is ready, and its end."""

import asyncio
import contextlib
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import httpx2

from inference.engine import supervisor
from inference.engine.errors import ModelLoadFailed
from inference.engine.external.event_stream import EventStream
from inference.engine.external.kinds import GIB, EngineKind, engine_arguments
from inference.engine.model_status import LoadOptions

ENGINES_WITH_SOCKETS = ("vllm", "llama.cpp")
READY_SECONDS = 600.0
POLL_SECONDS = 0.2
HEALTH_TIMEOUT_SECONDS = 20.0
MAX_LINE_BYTES = 64 * 1024  # of a server's output; a longer one is copied in parts
OUTPUT_SECONDS = 2.0  # for the rest of the output of a server that has ended
# A server gets these of our environment alone, so no secret of ours.
THREADS_VARIABLE = "OMP_NUM_THREADS"  # the host's, or a replica's part of the cores
PASSED_VARIABLES = (
    "PATH", "LANG", "TMPDIR", "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "LD_LIBRARY_PATH", THREADS_VARIABLE,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ServerPlan:
    """A server to run.

    folder: of the installed engine.
    socket: of the server, where it can listen on one.
    weight_bytes, cache_bytes: of the model, of which `gpu_share` is on GPUs.
    """

    kind: EngineKind
    folder: Path
    model: Path
    socket: Path
    options: LoadOptions
    context_size: int
    weight_bytes: int
    cache_bytes: int
    gpu_share: float
    key: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    port: int = 0

    @property
    def has_socket(self) -> bool:
        return self.kind.name in ENGINES_WITH_SOCKETS

    @property
    def config_file(self) -> Path:
        """The file with SGLang's key, which command lines would show to everybody on the machine."""
        return self.socket.with_suffix(".yaml")

    def write_config(self) -> None:
        """Write the file with the key."""
        self.config_file.unlink(missing_ok=True)
        with open(os.open(self.config_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"api-key: {self.key}\n")

    def command(self) -> list[str]:
        """Return the command line of the server."""
        options, model = self.options, str(self.model)
        slots, context = str(options.max_sequences), str(self.context_size)
        extra = engine_arguments(self.kind, dict(options.engine_options))
        if self.kind.name == "llama.cpp":
            return [
                str(self.folder / "bin" / "llama-server"), "--model", model, "--host", str(self.socket),
                "--parallel", slots, "--ctx-size", str(self.context_size * options.max_sequences),
                "--batch-size", str(options.batch_size), "--n-gpu-layers", str(options.gpu_layers),
                "--no-webui", "--no-slots", "--offline", "--cache-ram", "0", *extra,
            ]  # fmt: skip
        if self.kind.name == "vllm":
            return [
                str(self.folder / "bin" / "python"), "-m", "vllm.entrypoints.openai.api_server", "--model", model,
                "--served-model-name", "model", "--uds", str(self.socket), "--max-num-seqs", slots,
                "--max-model-len", context, "--max-num-batched-tokens", str(max(options.batch_size, self.context_size)),
                "--dtype", options.dtype, "--generation-config", "vllm", "--disable-log-stats",
                "--enable-prompt-tokens-details", *extra,
            ]  # fmt: skip
        return [
            str(self.folder / "bin" / "python"), "-m", "sglang.launch_server", "--model-path", model,
            "--served-model-name", "model", "--host", "127.0.0.1", "--port", str(self.port),
            "--context-length", context, "--max-running-requests", slots, "--dtype", options.dtype,
            "--chunked-prefill-size", str(options.batch_size),
            "--config", str(self.config_file), *extra,
        ]  # fmt: skip

    def environment(self) -> dict[str, str]:
        """Return the server's environment."""
        passed = {name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ}
        if self.kind.name == "llama.cpp" and THREADS_VARIABLE in passed:
            passed["LLAMA_ARG_THREADS"] = passed[THREADS_VARIABLE]  # it does not read the other one
        cache = str(self.folder / "cache")
        return passed | {
            "HOME": cache,
            "XDG_CACHE_HOME": cache,
            "HF_HUB_OFFLINE": "1",
            "VLLM_API_KEY": self.key,
            "LLAMA_API_KEY": self.key,
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_CPU_KVCACHE_SPACE": str(max(1, -(-self.cache_bytes // GIB))),
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        }


class EngineServer:
    """A running server. Its output goes to this process's stderr, which the host copies to its log.

    The key is replaced there: SGLang writes all its arguments at its start.
    """

    def __init__(self, plan: ServerPlan) -> None:
        self.plan = plan
        transport = httpx2.AsyncHTTPTransport(
            uds=str(plan.socket) if plan.has_socket else None,
            # Servers close idle connections as they like; new ones cost little on a machine.
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
        )
        self.client = httpx2.AsyncClient(
            transport=transport,
            base_url=f"http://127.0.0.1:{plan.port}",
            headers={"Authorization": f"Bearer {plan.key}"},
            timeout=HEALTH_TIMEOUT_SECONDS,
        )
        plan.socket.unlink(missing_ok=True)
        if not plan.has_socket:
            plan.write_config()
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-S", supervisor.__file__, *plan.command()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=plan.environment(),
            cwd=plan.folder,
        )
        assert self._process.stdout is not None
        self._output = threading.Thread(target=_copy_output, args=(self._process.stdout, plan.key), daemon=True)
        self._output.start()

    @property
    def exit_status(self) -> int | None:
        return self._process.poll()

    async def wait_ready(self) -> None:
        """Return when the server answers. Raise ModelLoadFailed if it ends first or takes too long."""
        name, deadline = self.plan.kind.name, time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if self.exit_status is not None:
                await self.wait_ended()
                raise ModelLoadFailed(f"{name} ended with status {self.exit_status} while it started; see the log.")
            if await self.is_healthy():
                return
            await asyncio.sleep(POLL_SECONDS)
        raise ModelLoadFailed(f"{name} was not ready after {READY_SECONDS:g} s; see the log.")

    async def is_healthy(self) -> bool:
        """Return whether the server says that it is ready."""
        try:
            return (await self.client.get("/health")).status_code == 200
        except (httpx2.HTTPError, OSError):
            return False

    async def connect(self, stream: EventStream) -> None:
        """Send the request of a stream on a connection of its own. Raise OSError or TimeoutError."""
        loop, plan = asyncio.get_running_loop(), self.plan
        async with asyncio.timeout(HEALTH_TIMEOUT_SECONDS):
            if plan.has_socket:
                await loop.create_unix_connection(lambda: stream, str(plan.socket))
            else:
                await loop.create_connection(lambda: stream, "127.0.0.1", plan.port)

    async def wait_ended(self) -> int:
        """Wait until the server has ended and its output is copied, and return its exit status."""
        return await asyncio.to_thread(self._wait)

    def close(self) -> None:
        """End the server with every process that it has started."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(supervisor.TERMINATE)
            self._process.stdin.close()
        self._wait()
        for file in (self.plan.socket, self.plan.config_file):
            file.unlink(missing_ok=True)

    def _wait(self) -> int:
        status = self._process.wait()
        self._output.join(OUTPUT_SECONDS)
        return status


def _copy_output(source: IO[bytes], key: str) -> None:
    """Copy a server's output to stderr, without its key."""
    with source, contextlib.suppress(OSError):
        while line := source.readline(MAX_LINE_BYTES):
            os.write(2, line.replace(key.encode(), b"[key]"))


def free_port() -> int:
    """Return a port of the loopback address that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
