"""Fuzz one parser with libFuzzer, guided by code coverage.

Usage: `python -m tests.benchmarks.system._fuzz_target NAME FOLDER [libFuzzer options]`. An error that is not a
rejection ends it and leaves the input in FOLDER.

It needs atheris, which is installed apart: `pip install atheris`, for CPython 3.11 on Linux.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["inference", "shared", "commerce"]):
    import django

    django.setup()
    from inference.engine import EngineError
    from inference.remote.sse import LineTooLong, parse_events
    from shared.api.errors import ApiError
    from shared.webhooks.destinations import InvalidDestination
    from tests.inference.test_x7_readers import READERS, Reader

REFUSALS: tuple[type[Exception], ...] = (ApiError, EngineError, InvalidDestination, LineTooLong)


def stream(data: bytes, _: Path) -> object:
    async def pieces() -> AsyncIterator[bytes]:
        yield data[: len(data) // 2]
        yield data[len(data) // 2 :]

    async def read() -> list[bytes | None]:
        return [event async for event in parse_events(pieces())]

    return asyncio.run(read())


TARGETS: dict[str, tuple[Reader, bytes]] = READERS | {
    "server-sent events": (stream, b': ping\ndata: {"a":1}\r\n\ndata: [DONE]\n\n'),
}


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    read, right = TARGETS[name]
    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    (corpus / "right").write_bytes(right)

    def take(data: bytes) -> None:
        with suppress(REFUSALS):
            read(data, folder)

    atheris.Setup([sys.argv[0], *sys.argv[3:], f"-artifact_prefix={folder}/", str(corpus)], take)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
