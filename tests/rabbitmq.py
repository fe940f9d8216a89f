"""A RabbitMQ server for a test, with its own folder and ports on loopback, without plugins."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import amqp

from shared.serving.processes.child_processes import die_with_parent

START_TIMEOUT_S = 90
HOW_TO_GET_IT = "RabbitMQ is not installed here: apt-get install rabbitmq-server"


def find_server() -> Path | None:
    """Return the release's own script: Debian's wrapper on the PATH runs as another user."""
    releases = Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server")
    return max(releases, default=None)


class LocalRabbitMQ:
    """A RabbitMQ server; `url` is its STOA_BROKER_URL."""

    def __init__(self, server: Path) -> None:
        self._server = server
        self._folder = Path(tempfile.mkdtemp(prefix="stoa-mq-"))
        self._port, names_port, peers_port = _free_ports(3)
        self._environment = os.environ | {
            "HOME": str(self._folder),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(names_port),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_CONFIG_FILE": str(self._folder / "none"),
            "RABBITMQ_DIST_PORT": str(peers_port),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._folder / "plugins"),
            "RABBITMQ_LOG_BASE": str(self._folder),
            "RABBITMQ_MNESIA_BASE": str(self._folder / "data"),
            "RABBITMQ_NODENAME": f"stoa{self._port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self._port),
            "RABBITMQ_PID_FILE": str(self._folder / "pid"),
        }
        self._running = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"amqp://guest:guest@127.0.0.1:{self._port}//"

    def start(self) -> None:
        """Start the port mapper and the server; return when it accepts connections."""
        self._run("epmd")  # as a child process: RabbitMQ would leave one running
        self.launch()

    def launch(self) -> None:
        """Start the server on its existing data; return when it accepts connections."""
        self._process = self._run(str(self._server))
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "out").read_text()
            assert time.monotonic() < deadline, "RabbitMQ does not answer."
            time.sleep(0.2)

    def end(self) -> None:
        """Stop the server; persistent messages are there after `launch`."""
        if self._process:
            self._process.terminate()
            self._process.wait(START_TIMEOUT_S)
            self._process = None

    def stop(self) -> None:
        """Stop the server and the port mapper, and remove the folder."""
        self.end()
        self._running.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, program: str) -> subprocess.Popen[bytes]:
        with (self._folder / "out").open("ab") as output:
            process = subprocess.Popen(
                [program], env=self._environment, stdout=output, stderr=output, preexec_fn=die_with_parent()
            )
        if program == "epmd":
            self._running.callback(process.wait, 10)
            self._running.callback(process.kill)
        return process

    def _answers(self) -> bool:
        try:
            with amqp.Connection(f"127.0.0.1:{self._port}", connect_timeout=2):
                return True
        except (OSError, amqp.AMQPError):
            return False


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
