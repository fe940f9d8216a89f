"""Relays between two processes, which stall, cut, half-close and corrupt connections by a seeded plan."""

import asyncio
import contextlib
import random
import socket
import ssl
import struct
import threading
from collections import Counter
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any, Self

CHUNK_BYTES = 64 * 1024
START_TIMEOUT_SECONDS = 10
MAX_STALL_SECONDS = 1.5
FAULT_DISTANCE_BYTES = (300, 300_000)
RESET = struct.pack("ii", 1, 0)  # SO_LINGER, with which closing resets the connection

Address = tuple[str, int] | Path  # of TCP, or of a Unix socket


class Fault(Enum):
    """A fault of one direction of a connection. After any but a stall, the connection is of no more use."""

    STALL = auto()
    CUT = auto()  # both ends see a reset
    HALF_CLOSE = auto()  # the receiver sees the end; what the sender still sends is dropped
    CORRUPT = auto()  # one bit; only below TLS, which detects it


FAULTS = (Fault.STALL, Fault.STALL, Fault.CUT, Fault.HALF_CLOSE)


@dataclass
class FaultPlan:
    """The faults of all connections of a link, which follow from the seed and the connection's number.

    distance: least and greatest number of bytes between two faults of a connection, even on a logarithmic scale.
    is_active: without it, connections are relayed as they are. counts: faults that happened.
    """

    link: str
    seed: int
    distance: tuple[int, int] = FAULT_DISTANCE_BYTES
    is_encrypted: bool = False
    is_active: bool = False
    counts: Counter[Fault] = field(default_factory=Counter)

    def faults(self, connection: int, direction: str) -> Iterator[tuple[int, Fault, float]]:
        """Yield the bytes until the next fault, the fault, and the seconds of a stall."""
        dice = random.Random(f"{self.seed} {self.link} {connection} {direction}")
        kinds = (*FAULTS, Fault.CORRUPT) if self.is_encrypted else FAULTS
        low, high = self.distance
        while True:
            distance = round(low * (high / low) ** dice.random())
            yield distance, dice.choice(kinds), dice.uniform(0.01, MAX_STALL_SECONDS)


class Relay:
    """A relay that listens at `address` and connects each client to `target`, which may be set later.

    listening: a Unix socket's path; by default, a TCP port of its own. tls: encrypt towards the clients.
    """

    def __init__(
        self,
        target: Address | None,
        *,
        plan: FaultPlan | None = None,
        listening: Path | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.target = target
        self.plan = plan or FaultPlan("", 0)
        self.address: Address = listening or ("127.0.0.1", 0)
        self._tls = tls
        self._connections = 0
        self._tasks: set[asyncio.Task[None] | None] = set()  # the event loop has weak references only

    async def open(self) -> asyncio.Server:
        if isinstance(self.address, Path):
            return await asyncio.start_unix_server(self._serve, self.address, limit=CHUNK_BYTES)
        server = await asyncio.start_server(self._serve, *self.address, limit=CHUNK_BYTES, ssl=self._tls)
        self.address = server.sockets[0].getsockname()[:2]
        return server

    async def _serve(self, client_reader: asyncio.StreamReader, client_writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        number = self._connections
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            await self._relay(client_reader, client_writer, number)
        finally:
            self._tasks.discard(task)

    async def _relay(
        self, client_reader: asyncio.StreamReader, client_writer: asyncio.StreamWriter, number: int
    ) -> None:
        try:
            server_reader, server_writer = await self._connect()
        except OSError:
            client_writer.transport.abort()
            return
        writers = client_writer, server_writer
        directions = (client_reader, server_writer, "to server"), (server_reader, client_writer, "to client")
        pumps = [self._pump(reader, writer, number, name, writers) for reader, writer, name in directions]
        try:
            await asyncio.gather(*pumps)
        except OSError:
            reset(writers)
        finally:
            for writer in writers:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self.target, Path):
            return await asyncio.open_unix_connection(self.target, limit=CHUNK_BYTES)
        assert self.target is not None, "The target of the relay is not set."
        return await asyncio.open_connection(*self.target, limit=CHUNK_BYTES)

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        number: int,
        direction: str,
        both: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
    ) -> None:
        """Pass one direction on until its end, with the faults of the plan."""
        faults = self.plan.faults(number, direction)
        distance, fault, seconds = next(faults)
        while chunk := await reader.read(CHUNK_BYTES):
            distance -= len(chunk)
            if distance <= 0 and self.plan.is_active:
                self.plan.counts[fault] += 1
                if fault is Fault.CUT:
                    return reset(both)
                if fault is Fault.HALF_CLOSE:
                    end(writer)
                    while await reader.read(CHUNK_BYTES):
                        pass
                    return None
                if fault is Fault.CORRUPT:
                    place = len(chunk) // 2
                    chunk = chunk[:place] + bytes([chunk[place] ^ 1]) + chunk[place + 1 :]
                else:
                    await asyncio.sleep(seconds)
            if distance <= 0:
                distance, fault, seconds = next(faults)
            writer.write(chunk)
            await writer.drain()
        end(writer)
        return None


def end(writer: asyncio.StreamWriter) -> None:
    """Send the end of this direction; TLS can only end both."""
    with contextlib.suppress(OSError):
        writer.write_eof() if writer.can_write_eof() else writer.close()


def reset(writers: tuple[asyncio.StreamWriter, ...]) -> None:
    for writer in writers:
        if not writer.transport.is_closing():  # a closed TLS transport has lost its socket
            connection: socket.socket = writer.get_extra_info("socket")
            if connection.family != socket.AF_UNIX:
                with contextlib.suppress(OSError):
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        writer.transport.abort()


class FaultyNetwork:
    """The relays of all links of a test, in a thread of their own."""

    def __init__(self, seed: int) -> None:
        self.plans: list[FaultPlan] = []
        self._seed = seed
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="FaultyNetwork")
        self._servers: list[asyncio.Server] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def link(self, name: str, target: Address | None) -> Relay:
        """Start a relay with faults to a TCP address."""
        return self._open(Relay(target, plan=self._plan(name)))

    def encrypted_link(self, name: str, target: Address | None, tls: ssl.SSLContext) -> tuple[Relay, Relay]:
        """Start a relay with faults on TLS; return it, and the server of TLS behind it that connects to the target."""
        terminator = self._open(Relay(target, tls=tls))
        return self._open(Relay(terminator.address, plan=self._plan(name, is_encrypted=True))), terminator

    def socket_link(
        self, name: str, path: Path, target: Path, distance: tuple[int, int] = FAULT_DISTANCE_BYTES
    ) -> Relay:
        """Start a relay with faults on a Unix socket at `path`."""
        return self._open(Relay(target, plan=self._plan(name, distance), listening=path))

    def interpose(self, name: str, path: Path, distance: tuple[int, int] = FAULT_DISTANCE_BYTES) -> Relay:
        """Start a relay with faults in place of a listening Unix socket, whose clients have its path from elsewhere."""
        moved = path.with_suffix(".behind")
        path.rename(moved)
        return self.socket_link(name, path, moved, distance)

    @contextlib.contextmanager
    def faults(self) -> Iterator[None]:
        """Cause faults on all links during the block."""
        for plan in self.plans:
            plan.is_active = True
        try:
            yield
        finally:
            for plan in self.plans:
                plan.is_active = False

    def counts(self) -> dict[str, dict[str, int]]:
        """Return the faults by link and kind."""
        return {plan.link: {fault.name: count for fault, count in plan.counts.items()} for plan in self.plans}

    def _plan(
        self, name: str, distance: tuple[int, int] = FAULT_DISTANCE_BYTES, *, is_encrypted: bool = False
    ) -> FaultPlan:
        self.plans.append(FaultPlan(name, self._seed, distance, is_encrypted))
        return self.plans[-1]

    def _open(self, relay: Relay) -> Relay:
        self._servers.append(self._run(relay.open()))
        return relay

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(START_TIMEOUT_SECONDS)

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


def url_of(relay: Relay, scheme: str = "http") -> str:
    assert not isinstance(relay.address, Path)
    return f"{scheme}://{relay.address[0]}:{relay.address[1]}"


def interpose_on_models(network: FaultyNetwork, run_dir: Path) -> None:
    """Relay the connections to a model host, which are short, and to its loaded models, which are few and long."""
    for path in run_dir.glob("*.sock"):
        is_host = path.name == "host.sock"
        network.interpose("model host" if is_host else "model", path, (10, 1_000) if is_host else (100, 20_000))


def tcp_address(url: str) -> tuple[str, int]:
    """Return host and port of a URL like http://127.0.0.1:8000."""
    host, _, port = url.rpartition("/")[2].partition(":")
    return host, int(port)


def relayed_database(network: FaultyNetwork, url: str, folder: Path) -> str:
    """Return the URL of a PostgreSQL server on a Unix socket behind a relay in `folder`."""
    base, _, server = url.partition("?host=")
    name = ".s.PGSQL.5432"
    network.socket_link("database", folder / name, Path(server) / name)
    return f"{base}?host={folder}"


def relayed_redis(network: FaultyNetwork, url: str, folder: Path) -> str:
    """Return the URL of a Redis server on a Unix socket behind a relay in `folder`."""
    path, _, options = url.removeprefix("unix://").partition("?")
    network.socket_link("Redis", folder / "redis.sock", Path(path))
    return f"unix://{folder}/redis.sock?{options}"
