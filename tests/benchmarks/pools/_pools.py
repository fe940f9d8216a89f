"""A pool of member processes behind a running server, clients in conversation with it, and a process that kills."""

import asyncio
import contextlib
import json
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from tests.inference.engine.processes import running_host
from tests.inference.running_server import RunningServer, run_commands, running_server

MODEL = "big"
MEMBER_KEY = "member-secret-key"
PROGRAM = Path(__file__).with_name("_pool_member.py")
DOWN_SECONDS = 3.0  # from a member's kill until it is started again
SETTLE_SECONDS, KILLING_SECONDS, MIN_CALM_SECONDS = 6.0, 60.0, 12.0
TURNS = 6
SYSTEM_CHARACTERS, TURN_CHARACTERS = 3000, 200
UNLIMITED = {
    f"STOA_{owner}_{limit}": "100000000"
    for owner in ("KEY", "USER")
    for limit in ("REQUESTS_PER_MINUTE", "TOKENS_PER_MINUTE", "CONCURRENCY_LIMIT")
}


@dataclass
class MemberProcess:
    """A member on a port of its own, which stays the same after a kill."""

    name: str
    options: tuple[str, ...] = ("--key", MEMBER_KEY)
    port: int = field(default_factory=lambda: free_port())
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> None:
        command = [sys.executable, "-S", "-E", str(PROGRAM), str(self.port), *self.options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextlib.contextmanager
def running_members(members: Sequence[MemberProcess]) -> Iterator[None]:
    """Run the members, and end them afterwards."""
    try:
        for member in members:
            member.start()
        yield
    finally:
        for member in members:
            member.kill()


@contextlib.contextmanager
def running_pool(members: Sequence[MemberProcess]) -> Iterator[RunningServer]:
    """Run a server with a pool of these members, which `stoa pools add` adds."""
    with running_members(members), running_host() as host, tempfile.TemporaryDirectory(prefix="stoa") as folder:
        home = Path(folder)
        with running_server(home, host.run_dir, home / "models", load=[], extra=UNLIMITED) as server:
            (home / "key").write_text(MEMBER_KEY)
            key = ["--api-key-file", str(home / "key")]
            added = run_commands(
                server.environment,
                *(["pools", "add", MODEL, one.url, "--name", one.name, "--kind", "vllm", *key] for one in members),
            )
            assert [one.stderr for one in added if one.returncode] == []
            time.sleep(4.5)  # until the server has read them
            yield server


@dataclass(frozen=True)
class Turn:
    """A turn of a conversation. prefix_tokens: of the turn before, which a member has had. first_seconds: None if lost.

    has_failed: it did not end as it should.
    """

    began_at: float
    first_seconds: float | None
    has_failed: bool
    prefix_tokens: int
    cached_tokens: int

    def is_within(self, times: Sequence[tuple[float, float]]) -> bool:
        return any(began <= self.began_at < ended for began, ended in times)


class Load:
    """Clients that each hold one conversation after the other. `turns` has what they saw."""

    def __init__(self, server: RunningServer, streams: int, tokens: int) -> None:
        self.turns: list[Turn] = []
        self.errors: list[str] = []
        self._server = server
        self._streams = streams
        self._tokens = tokens
        self._random = random.Random(7)

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Run the clients within the block. They finish their turns after it."""
        ending = asyncio.Event()
        limits = httpx2.Limits(max_connections=self._streams)
        async with (
            httpx2.AsyncClient(
                base_url=self._server.url, headers=self._server.headers(), timeout=120, limits=limits
            ) as client,
            asyncio.TaskGroup() as group,
        ):
            for number in range(self._streams):
                group.create_task(self._converse(client, number, ending))
            yield
            ending.set()

    async def _converse(self, client: httpx2.AsyncClient, number: int, ending: asyncio.Event) -> None:
        await asyncio.sleep(number * 4.0 / self._streams)  # not all at once
        count = self._random.randrange(TURNS)
        while not ending.is_set():
            messages = [{"role": "system", "content": self._text(SYSTEM_CHARACTERS)}]
            prefix_tokens = 0
            for _ in range(TURNS - count):
                if ending.is_set():
                    return
                messages.append({"role": "user", "content": self._text(TURN_CHARACTERS)})
                answer, prompt_tokens = await self._turn(client, messages, prefix_tokens)
                if prompt_tokens is None:  # it is repeated, as clients do
                    answer, prompt_tokens = await self._turn(client, messages, prefix_tokens)
                messages.append({"role": "assistant", "content": answer})
                prefix_tokens = prompt_tokens or prefix_tokens
            count = 0

    def _text(self, length: int) -> str:
        return "".join(self._random.choices("abcdefghijklmnopqrstuvwxyz ", k=length))

    async def _turn(
        self, client: httpx2.AsyncClient, messages: list[dict[str, str]], prefix_tokens: int
    ) -> tuple[str, int | None]:
        """Return the answer and the tokens of the prompt, or None if the turn failed."""
        body = {"model": MODEL, "messages": messages, "max_tokens": self._tokens, "stream": True}
        body |= {"stream_options": {"include_usage": True}}
        began, first_at, answer, usage, error = time.monotonic(), None, "", None, ""
        try:
            async with client.stream("POST", "/v1/chat/completions", json=body) as response:
                if response.status_code != 200:
                    error = (await response.aread()).decode()
                async for line in response.aiter_lines():
                    if not line.startswith("data: {"):
                        continue
                    event = json.loads(line[6:])
                    error = error or json.dumps(event.get("error") or "").strip('"')
                    usage = event.get("usage") or usage
                    text = "".join(choice["delta"].get("content") or "" for choice in event.get("choices", ()))
                    if text and first_at is None:
                        first_at = time.monotonic()
                    answer += text
        except httpx2.HTTPError as failure:
            error = repr(failure)
        has_failed = bool(error) or usage is None
        cached = ((usage or {}).get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        first_seconds = None if first_at is None else first_at - began
        self.turns.append(Turn(began, first_seconds, has_failed, prefix_tokens, cached))
        if has_failed:
            self.errors.append(error or "no usage")
        return answer, None if has_failed else (usage or {})["prompt_tokens"]


async def kill_in_turn(members: Sequence[MemberProcess], *, every: float, until: float) -> int:
    """Kill a member every so many seconds until a monotonic time, and start it again. Return how many were killed."""
    order = random.Random(11)
    victims: list[MemberProcess] = []
    count = 0
    while time.monotonic() < until:
        victims = victims or order.sample(list(members), len(members))
        victim = victims.pop()
        victim.kill()
        count += 1
        await asyncio.sleep(DOWN_SECONDS)
        await asyncio.to_thread(victim.start)
        await asyncio.sleep(max(0.0, min(every - DOWN_SECONDS, until - time.monotonic())))
    return count


@dataclass(frozen=True)
class Summary:
    """Figures of turns: lost ones had no token, cut ones had some. cached_share: of the prefixes of turns."""

    turns: int
    lost: int
    cut: int
    cached_share: float
    first_ms: dict[int, float]


def summarize(turns: Sequence[Turn]) -> Summary:
    firsts = sorted(turn.first_seconds * 1000 for turn in turns if turn.first_seconds is not None)
    complete = [turn for turn in turns if not turn.has_failed]
    possible = sum(turn.prefix_tokens for turn in complete)
    cached = sum(min(turn.cached_tokens, turn.prefix_tokens) for turn in complete)
    return Summary(
        turns=len(turns),
        lost=sum(turn.first_seconds is None for turn in turns),
        cut=sum(turn.has_failed and turn.first_seconds is not None for turn in turns),
        cached_share=cached / possible if possible else 0.0,
        first_ms={percent: firsts[min(len(firsts) - 1, len(firsts) * percent // 100)] for percent in (50, 99)},
    )


async def measure(
    server: RunningServer, members: Sequence[MemberProcess], *, streams: int, tokens: int, seconds: float
) -> tuple[Summary, Summary, int, list[str]]:
    """Return what clients saw without and with kills, the number of kills, and the clients' errors.

    Half as long as it kills it does not, in turns, so that other work on the machine disturbs both alike.
    """
    load, kills = Load(server, streams, tokens), 0
    calm, killing = list[tuple[float, float]](), list[tuple[float, float]]()
    async with load.run():
        await asyncio.sleep(SETTLE_SECONDS)  # every conversation has begun
        while seconds > 0:
            part = min(seconds, KILLING_SECONDS)
            began = time.monotonic()
            await asyncio.sleep(max(part / 2, MIN_CALM_SECONDS))
            killing_began = time.monotonic()
            calm.append((began, killing_began - SETTLE_SECONDS))  # later ones may be cut by the first kill
            kills += await kill_in_turn(members, every=10.0, until=killing_began + part)
            killing.append((killing_began, time.monotonic()))
            await asyncio.sleep(SETTLE_SECONDS)  # the last turns that a kill could cut have ended
            seconds -= part
    parts = ([turn for turn in load.turns if turn.is_within(times)] for times in (calm, killing))
    undisturbed, disturbed = map(summarize, parts)
    return undisturbed, disturbed, kills, load.errors
