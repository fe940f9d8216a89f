"""The sockets' protocol: handshake, versions, invalid data and unload notices."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from inference.engine import HostClient, HostUnavailable, InvalidRequest, ModelNotLoaded, ModelState
from inference.engine.ipc.channel import MAX_FRAME_BYTES, PROTOCOL_VERSION, Channel, connect
from inference.engine.ipc.connection import Connection
from inference.engine.ipc.frames import (
    DrainNotice,
    ErrorReply,
    Frame,
    Generate,
    Hello,
    ListModels,
    Models,
    Ping,
    UnloadNotice,
)
from tests.inference.engine.processes import RunningHost, eventually_idle, read, request, running_host

NO_UNICODE = b"\x82\xa4type\xa4Find\xa8model_id\xa2\xff\xfe"
DEEP = b"\x85\xa4type\xa6Failed\xa4call\x01\xa4code\xa1a\xa7message\xa1b\xa7details\x81\xa1k" + b"\x91" * 5000 + b"\x90"
HOSTILE = {
    "a length over the cap": struct.pack(">I", MAX_FRAME_BYTES + 1),
    "bytes that are no msgpack": struct.pack(">I", 4) + b"\xc1\xc1\xc1\xc1",
    "msgpack that is no frame": struct.pack(">I", 1) + b"\x2a",
    "a frame of an unknown kind": struct.pack(">I", 9) + b"\x81\xa4type\xa2No",
    "a text that is no Unicode": struct.pack(">I", len(NO_UNICODE)) + NO_UNICODE,
    "lists in lists without end": struct.pack(">I", len(DEEP)) + DEEP,
    "half a frame, then the end": struct.pack(">I", 100) + b"half",
}


@pytest.fixture
async def host() -> AsyncIterator[RunningHost]:
    with running_host() as host:
        yield host
        await host.engine.close()


async def open_channel(path: Path) -> Channel:
    return Channel(*await asyncio.open_unix_connection(path))


async def answers(path: Path, *sent: Frame) -> list[Frame]:
    """Send frames and return the replies, until the connection closes or the last one is answered."""
    channel = await open_channel(path)
    for frame in sent:
        channel.send(frame)
    said: list[Frame] = []
    while len(said) <= len(sent) and (answer := await channel.receive()) is not None:
        said.append(answer)
    await channel.wait_closed()
    return said


async def test_a_command_after_the_handshake_gets_its_reply(host: RunningHost) -> None:
    assert await answers(host.run_dir / "host.sock", Hello(PROTOCOL_VERSION), ListModels()) == [
        Hello(PROTOCOL_VERSION),
        Models(()),
    ]


async def test_a_client_of_another_protocol_version_gets_an_error_with_advice(host: RunningHost) -> None:
    hello, refusal = await answers(host.run_dir / "host.sock", Hello(99))
    assert hello == Hello(PROTOCOL_VERSION)
    assert isinstance(refusal, ErrorReply)
    assert "99" in refusal.message
    assert "restart the older" in refusal.message


async def test_a_host_of_another_protocol_version_is_unavailable_with_a_reason(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = Channel(reader, writer)
        channel.send(Hello(99))
        await channel.receive()
        await channel.wait_closed()

    async with await asyncio.start_unix_server(answer, path=tmp_path / "host.sock"):
        with pytest.raises(HostUnavailable, match="version 99"):
            await HostClient(tmp_path).models()


async def test_a_client_that_sends_no_hello_is_rejected(host: RunningHost) -> None:
    said = await answers(host.run_dir / "host.sock", ListModels())
    assert not any(isinstance(frame, Models) for frame in said)


async def test_an_unexpected_command_is_rejected(host: RunningHost) -> None:
    said = await answers(host.run_dir / "host.sock", Hello(PROTOCOL_VERSION), Ping())
    assert isinstance(said[1], ErrorReply)


@pytest.mark.parametrize("sent", [NO_UNICODE, DEEP], ids=["no Unicode", "deep"])
async def test_undecodable_data_gets_an_error_reply(host: RunningHost, sent: bytes) -> None:
    reader, writer = await asyncio.open_unix_connection(host.run_dir / "host.sock")
    channel = Channel(reader, writer)
    await channel.handshake()
    writer.write(len(sent).to_bytes(4, "big") + sent)
    refusal = await channel.receive()
    assert isinstance(refusal, ErrorReply)
    assert "not a frame" in refusal.message
    await channel.wait_closed()


@pytest.mark.parametrize("sent", HOSTILE.values(), ids=HOSTILE.keys())
async def test_invalid_data_closes_only_its_own_connection(host: RunningHost, sent: bytes) -> None:
    await host.commands.load("m", host.folder("m"))
    stream = await host.engine.generate("m", request(max_tokens=30))
    (model_socket,) = (path for path in host.run_dir.glob("*.sock") if path.name != "host.sock")
    for path in (host.run_dir / "host.sock", model_socket):
        for greeting in (b"", b"\x00\x00\x00\x16\x82\xa4type\xa5Hello\xa7version\x01"):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(greeting + sent)
            writer.write_eof()
            async with asyncio.timeout(10):
                with contextlib.suppress(ConnectionError):
                    await reader.read()
            writer.close()
    assert len(await read(stream)) == 30
    assert [model.model_id for model in await host.commands.models()] == ["m"]


async def test_a_frame_over_the_size_limit_is_rejected_before_it_is_sent(host: RunningHost) -> None:
    await host.commands.load("m", host.folder("m"))
    with pytest.raises(InvalidRequest, match="split it"):
        await host.engine.generate("m", request(prompt="x" * (MAX_FRAME_BYTES + 1)))
    assert len(await read(await host.engine.generate("m", request()))) == 5


async def test_a_client_that_does_not_read_is_disconnected_and_delays_no_other(host: RunningHost) -> None:
    await host.commands.load("m", host.folder("m"))
    (model_socket,) = (path for path in host.run_dir.glob("*.sock") if path.name != "host.sock")
    deaf = await open_channel(model_socket)
    deaf.send(Hello(PROTOCOL_VERSION))
    for call in range(12):
        deaf.send(Generate(call, request(prompt="shout", max_tokens=10_000_000)))
    while (await host.engine.stats("m")).running < 12:
        assert len(await read(await host.engine.generate("m", request()))) == 5
    await eventually_idle(host.engine, "m", seconds=30)
    deaf.abort()


async def test_a_duplicate_call_number_closes_the_connection_and_cancels_its_calls(host: RunningHost) -> None:
    await host.commands.load("m", host.folder("m"))
    client = await connect(Path((await host.commands.find("m")).socket))
    for number in (1, 2, 1):
        client.send(Generate(number, request(max_tokens=10_000_000)))
    said = []
    async with asyncio.timeout(10):
        while (frame := await client.receive()) is not None:
            said.append(frame)
    assert any(isinstance(frame, ErrorReply) and "in use" in frame.message for frame in said)
    await eventually_idle(host.engine, "m", seconds=10)
    await client.wait_closed()


async def test_an_unloaded_model_notifies_its_clients_and_waits_until_they_disconnect(host: RunningHost) -> None:
    await host.commands.load("m", host.folder("m"))
    client = await connect(Path((await host.commands.find("m")).socket))
    unloading = asyncio.create_task(host.commands.unload("m"))
    assert [await client.receive() for _ in range(2)] == [DrainNotice(), UnloadNotice()]
    client.send(Generate(1, request()))  # asked before it was heard: the socket is still there to take it
    refusal = await client.receive()
    assert isinstance(refusal, ErrorReply)
    assert refusal.code == "ModelNotLoaded"
    assert not unloading.done()
    await client.wait_closed()
    await unloading


async def test_calls_that_an_unloaded_model_did_not_start_raise_model_not_loaded(tmp_path: Path) -> None:
    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = Channel(reader, writer)
        await channel.handshake()
        assert isinstance(await channel.receive(), Generate)
        channel.send(UnloadNotice())
        assert await channel.receive() is None
        await channel.wait_closed()
        left.set()

    left = asyncio.Event()
    async with await asyncio.start_unix_server(leave, tmp_path / "model.sock"):
        lost = asyncio.Event()
        connection = Connection(await connect(tmp_path / "model.sock"), lost.set)
        for _ in range(2):
            with pytest.raises(ModelNotLoaded) as refusal:
                await connection.generate(request())
            assert refusal.value.details["state"] is ModelState.UNLOADING
        assert lost.is_set()
        await connection.close()
        await left.wait()
