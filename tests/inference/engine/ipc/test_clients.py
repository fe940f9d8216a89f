"""Clients: streams, other calls, cancellation and disconnection."""

import asyncio
import os
import signal
import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

from inference.engine import (
    ContextLengthExceeded,
    EmbeddingRequest,
    EngineClient,
    EngineError,
    FinishReason,
    GenerationRequest,
    GenerationStream,
    InvalidRequest,
    LoadOptions,
    SamplingParams,
    TokenizationRequest,
    Usage,
)
from tests.inference.engine.processes import (
    RunningHost,
    eventually,
    eventually_idle,
    read,
    request,
    running_host,
    start_program,
)

ENDLESS = 10_000_000


@pytest.fixture
async def host() -> AsyncIterator[RunningHost]:
    with running_host() as host:
        await host.commands.load("m", host.folder("m"))
        yield host
        await host.engine.close()


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


async def settled(host: RunningHost) -> Callable[[], tuple[int, ...]]:
    """Return a function that counts open files and tasks of client, model process and host, once they are idle."""
    pids = (os.getpid(), await host.pid("m"), host.process.pid)
    await host.engine.stats("m")
    await asyncio.sleep(0.2)
    return lambda: (*map(open_files, pids), len(asyncio.all_tasks()))


async def test_a_stream_yields_every_output_in_order_and_ends_once(host: RunningHost) -> None:
    async with await host.engine.generate("m", request(prompt="four", max_tokens=3)) as stream:
        assert stream.prompt_tokens == 4
        outputs = await read(stream)
    assert [(output.request_id, output.index, output.text) for output in outputs] == [
        ("one", 0, "w0 "),
        ("one", 1, "w1 "),
        ("one", 2, "w2 "),
    ]
    assert [output.finish_reason for output in outputs] == [None, None, FinishReason.LENGTH]
    assert outputs[-1].usage is not None
    assert outputs[-1].usage.total_tokens == 7
    assert await read(stream) == []


async def test_bulk_reading_returns_the_same_outputs_in_few_pieces(host: RunningHost) -> None:
    streamed = await read(await host.engine.generate("m", request(max_tokens=20)))
    async with await host.engine.generate("m", request(max_tokens=20)) as stream:
        assert await stream.read() == streamed
        assert await stream.read() == []
    async with await host.engine.generate("m", request(prompt="shout", max_tokens=20)) as stream:
        pieces = []
        while piece := await stream.read():
            pieces.append(piece)
    assert len(pieces) == 5
    assert [output.index for piece in pieces for output in piece] == list(range(20))


async def test_s1_sixteen_concurrent_streams_equal_a_single_one(host: RunningHost) -> None:
    alone = await read(await host.engine.generate("m", request(max_tokens=20)))
    streams = await asyncio.gather(*(host.engine.generate("m", request(max_tokens=20)) for _ in range(16)))
    assert await asyncio.gather(*map(read, streams)) == [alone] * 16


async def test_a_stream_ends_with_the_last_of_its_choices(host: RunningHost) -> None:
    asked = GenerationRequest(request_id="one", prompt="four", sampling=SamplingParams(max_tokens=3), n=3)
    outputs = await read(await host.engine.generate("m", asked))
    assert [(output.choice, output.index) for output in outputs] == [(c, i) for i in range(3) for c in range(3)]
    assert [output.finish_reason for output in outputs[-3:]] == [FinishReason.LENGTH] * 3
    assert [output.usage for output in outputs[:-1]] == [None] * 8
    assert outputs[-1].usage == Usage(4, 9, cached_tokens=2)


async def test_r7_a_timeout_has_its_error_code(host: RunningHost) -> None:
    asked = GenerationRequest(request_id="one", prompt="silence", timeout=0.1)
    outputs = await read(await host.engine.generate("m", asked))
    assert [(output.finish_reason, output.error_code) for output in outputs] == [(FinishReason.ERROR, "TIMEOUT")]


async def test_peek_returns_the_next_output_without_consuming_it(host: RunningHost) -> None:
    stream = await host.engine.generate("m", request(max_tokens=2))
    first = await stream.peek()
    assert first == await stream.peek()
    assert (await read(stream))[0] == first
    assert await stream.peek() is None


async def test_a_forwarded_stream_gives_unread_and_later_outputs_to_another(host: RunningHost) -> None:
    source = await host.engine.generate("m", request(max_tokens=10))
    await source.peek()
    target = GenerationStream("another", lambda: None)
    failures: list[object] = []
    source.forward(target, lambda *failure: failures.append(failure))
    outputs = await read(target)
    assert [(output.index, output.text) for output in outputs] == [(index, f"w{index} ") for index in range(10)]
    assert outputs[-1].usage == Usage(5, 10, cached_tokens=2)
    assert (target.prompt_tokens, failures) == (5, [])

    ended = await host.engine.generate("m", request(max_tokens=1))
    await eventually_idle(host.engine, "m")
    late = GenerationStream("late", lambda: None)
    ended.forward(late, lambda *failure: failures.append(failure))
    assert ([output.text for output in await read(late)], failures) == (["w0 "], [])


@pytest.mark.parametrize("is_forwarded_first", [True, False])
@pytest.mark.parametrize(("prompt", "was_begun"), [("silence", False), ("speak", True)])
async def test_the_end_of_a_process_is_reported_in_place_of_an_output_of_a_forwarded_stream(
    host: RunningHost, prompt: str, was_begun: bool, is_forwarded_first: bool
) -> None:
    source = await host.engine.generate("m", request(prompt, max_tokens=ENDLESS))
    target = GenerationStream("another", lambda: None)
    failures: list[tuple[str, str | None, bool]] = []
    ends = asyncio.Event()
    source.add_done_callback(lambda _: ends.set())

    def fail(message: str, code: str | None, was_begun: bool) -> None:
        failures.append((message, code, was_begun))
        ends.set()

    if was_begun:
        await source.peek()
    if is_forwarded_first:
        source.forward(target, fail)
    os.kill(await host.pid("m"), signal.SIGKILL)
    async with asyncio.timeout(10):
        await ends.wait()
    if not is_forwarded_first:
        source.forward(target, fail)
    [(message, code, begun)] = failures
    assert (code, begun) == ("EngineDied", was_begun)
    assert "is being restarted" in message
    target.fail("the end")
    assert [output.error for output in await read(target) if output.error] == ["the end"]


async def test_closing_a_forwarded_stream_frees_its_slot(host: RunningHost) -> None:
    source = await host.engine.generate("m", request(max_tokens=ENDLESS))
    source.forward(GenerationStream("another", lambda: None), lambda *_: None)
    await source.close()
    await eventually_idle(host.engine, "m")


async def test_equal_request_ids_of_two_clients_do_not_collide(host: RunningHost) -> None:
    other = EngineClient(host.run_dir)
    streams = [
        await host.engine.generate("m", request(max_tokens=20)),
        await host.engine.generate("m", request(max_tokens=30)),
        await other.generate("m", request(max_tokens=ENDLESS)),
    ]
    await other.close()
    assert [len(await read(stream)) for stream in streams[:2]] == [20, 30]
    assert (await read(streams[2]))[-1].finish_reason is FinishReason.ERROR
    await eventually_idle(host.engine, "m")


async def test_typed_errors_cross_the_socket_with_their_details(host: RunningHost) -> None:
    with pytest.raises(ContextLengthExceeded, match=r"Too long\.") as refused:
        await host.engine.generate("m", request(prompt="long"))
    assert refused.value.details == {"context_size": 8, "prompt_tokens": 9, "max_tokens": 1}


async def test_a_bug_in_the_engine_is_an_error_reply_and_the_process_survives(host: RunningHost) -> None:
    pid = await host.pid("m")
    with pytest.raises(EngineError, match="TypeError"):
        await host.engine.generate("m", request(prompt="bug"))
    assert len(await read(await host.engine.generate("m", request()))) == 5
    assert await host.pid("m") == pid


async def test_m6_a_panic_in_a_library_is_an_error_reply_and_the_process_survives(host: RunningHost) -> None:
    pid = await host.pid("m")
    async with asyncio.timeout(10):
        with pytest.raises(EngineError, match="Panic"):
            await host.engine.generate("m", request(prompt="panic"))
        assert len(await read(await host.engine.generate("m", request()))) == 5
    assert await host.pid("m") == pid


async def test_text_round_trips_through_ids(host: RunningHost) -> None:
    assert (await host.engine.tokenize("m", TokenizationRequest(text="hé"))).ids == (0x68, 0xC3, 0xA9)
    assert await host.engine.detokenize("m", [0x68, 0xC3, 0xA9]) == "hé"


async def test_embeddings_come_in_order_and_only_from_an_embedding_model(host: RunningHost) -> None:
    await host.commands.load("e", host.folder("embedder"))
    asked = EmbeddingRequest(request_id="e1", texts=("a", "bbb", "cc"))
    result = await host.engine.embed("e", asked)
    assert (result.request_id, result.dimensions) == ("e1", 2)
    assert [struct.unpack("<2f", vector)[0] for vector in result.vectors] == [1, 3, 2]
    with pytest.raises(InvalidRequest, match="embedding model"):
        await host.engine.embed("m", asked)
    with pytest.raises(InvalidRequest, match="text-generation model"):
        await host.engine.generate("e", request())


async def test_r5_users_take_turns_at_tokenizing(host: RunningHost) -> None:
    slow = msgspec.structs.replace(request(prompt="slow"), user="ann")
    asking = [asyncio.create_task(host.engine.generate("m", slow)) for _ in range(12)]
    await asyncio.sleep(0.2)
    stream = await host.engine.generate("m", msgspec.structs.replace(request(), user="bob"))
    assert sum(one.done() for one in asking) <= 4
    assert len(await read(stream)) == 5
    for one in asking:
        await (await one).close()


async def test_s2_requests_cancelled_before_tokenizing_are_skipped(host: RunningHost) -> None:
    asking = [asyncio.create_task(host.engine.generate("m", request(prompt="slow"))) for _ in range(12)]
    await asyncio.sleep(0.2)
    for one in asking:
        one.cancel()
    await asyncio.wait(asking)
    async with asyncio.timeout(4):
        assert len(await read(await host.engine.generate("m", request()))) == 5
    await eventually_idle(host.engine, "m")


async def test_s2_cancelled_embeddings_delay_no_other(host: RunningHost) -> None:
    await host.commands.load("e", host.folder("embedder"))
    for number in range(40):
        asked = EmbeddingRequest(request_id=str(number), texts=("for ever",))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(host.engine.embed("e", asked), 0.02)
    async with asyncio.timeout(10):
        await host.engine.embed("e", EmbeddingRequest(request_id="last", texts=("a",)))
    await eventually_idle(host.engine, "e")


async def test_s2_closing_a_stream_frees_its_slot(host: RunningHost) -> None:
    stream = await host.engine.generate("m", request(max_tokens=ENDLESS))
    await anext(stream)
    assert (await host.engine.stats("m")).running == 1
    await stream.close()
    await stream.close()
    assert await read(stream) == []
    await eventually_idle(host.engine, "m")


async def test_s2_a_cancelled_reader_frees_its_slot(host: RunningHost) -> None:
    async def serve() -> None:
        async with await host.engine.generate("m", request(max_tokens=ENDLESS)) as stream:
            async for _ in stream:
                reading.set()

    reading = asyncio.Event()
    reader = asyncio.create_task(serve())
    await reading.wait()
    reader.cancel()
    await asyncio.wait({reader})
    await eventually_idle(host.engine, "m")


async def test_s2_cancelling_before_acceptance_leaves_nothing_running(host: RunningHost) -> None:
    await host.engine.stats("m")
    asking = [asyncio.create_task(host.engine.generate("m", request(max_tokens=ENDLESS))) for _ in range(20)]
    await asyncio.sleep(0)
    for task in asking:
        task.cancel()
    await asyncio.wait(asking)
    assert all(task.cancelled() for task in asking)
    await eventually_idle(host.engine, "m")


async def test_s2_a_killed_client_frees_its_slots(host: RunningHost) -> None:
    program = (
        "import asyncio, sys, pathlib\n"
        "from inference.engine import EngineClient\n"
        "from tests.inference.engine.processes import request\n"
        "async def main():\n"
        "    client = EngineClient(pathlib.Path(sys.argv[1]))\n"
        "    streams = [await client.generate('m', request(max_tokens=10**7)) for _ in range(4)]\n"
        "    print(await anext(streams[3]), flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    with start_program(program, str(host.run_dir)) as client:
        assert client.stdout is not None
        await asyncio.to_thread(client.stdout.readline)
        assert (await host.engine.stats("m")).running == 4
        client.kill()
    await eventually_idle(host.engine, "m")


async def test_s2_two_hundred_closed_streams_leak_nothing(host: RunningHost) -> None:
    async def come_and_go() -> None:
        stream = await host.engine.generate("m", request(max_tokens=ENDLESS))
        await anext(stream)
        await stream.close()

    held = await settled(host)
    before = held()
    for _ in range(20):
        await asyncio.gather(*(come_and_go() for _ in range(10)))
    assert (await eventually_idle(host.engine, "m")).slots == 16
    await eventually(lambda: held() == before)


async def test_s2_two_hundred_disconnected_clients_leak_nothing(host: RunningHost) -> None:
    held = await settled(host)
    before = held()
    for _ in range(200):
        client = EngineClient(host.run_dir)
        await client.generate("m", request(max_tokens=ENDLESS))
        await client.close()
    await eventually_idle(host.engine, "m")
    await eventually(lambda: held() == before)


async def test_an_unread_stream_is_ended_and_blocks_no_other(host: RunningHost) -> None:
    unread = await host.engine.generate("m", request(prompt="shout", max_tokens=ENDLESS))
    others = [await host.engine.generate("m", request(max_tokens=60)) for _ in range(3)]
    assert [len(outputs) for outputs in await asyncio.gather(*map(read, others))] == [60] * 3
    outputs = await read(unread)
    assert outputs[-1].finish_reason is FinishReason.ERROR
    assert outputs[-1].error is not None
    assert "faster" in outputs[-1].error
    assert sum(len(output.text) for output in outputs) <= 2**20
    assert [output.index for output in outputs] == list(range(len(outputs)))
    await eventually_idle(host.engine, "m")


def test_one_client_serves_successive_event_loops() -> None:
    async def use(engine: EngineClient) -> int:
        return len(await read(await engine.generate("m", request())))

    with running_host() as host:
        asyncio.run(host.commands.load("m", host.folder("m")))
        before = open_files(os.getpid())
        assert [asyncio.run(use(host.engine)) for _ in range(5)] == [5] * 5
        assert open_files(os.getpid()) == before


async def test_a_crash_of_one_model_does_not_affect_another(host: RunningHost) -> None:
    await host.commands.load("n", host.folder("n"), LoadOptions(max_sequences=3))
    kept, lost = [await host.engine.generate(model_id, request(max_tokens=60)) for model_id in ("m", "n")]
    os.kill(await host.pid("n"), signal.SIGKILL)
    assert (await read(lost))[-1].finish_reason is FinishReason.ERROR
    assert (await read(kept))[-1].finish_reason is FinishReason.LENGTH


async def test_done_callbacks_get_the_usage_once_for_every_end_of_a_stream(host: RunningHost) -> None:
    told: list[Usage] = []
    whole = await host.engine.generate("m", request(prompt="four", max_tokens=3, request_id="whole"))
    whole.add_done_callback(told.append)
    await read(whole)
    await whole.close()
    assert told == [Usage(4, 3, cached_tokens=2)]
    whole.add_done_callback(told.append)
    assert told == [Usage(4, 3, cached_tokens=2)] * 2

    left = await host.engine.generate("m", request(prompt="four", max_tokens=ENDLESS, request_id="left"))
    left.add_done_callback(told.append)
    for _ in range(5):
        await anext(left)
    await left.close()
    assert (told[2].prompt_tokens, told[2].completion_tokens >= 5) == (4, True)

    died = await host.engine.generate("m", request(prompt="four", max_tokens=ENDLESS, request_id="died"))
    died.add_done_callback(told.append)
    await anext(died)
    os.kill(await host.pid("m"), signal.SIGKILL)
    outputs = await read(died)
    assert told[3:] == [outputs[-1].usage]


async def test_tokenize_calls_delay_no_generation(host: RunningHost) -> None:
    asking = [asyncio.create_task(host.engine.tokenize("m", TokenizationRequest(text="slow"))) for _ in range(3)]
    await asyncio.sleep(0.1)
    await read(await host.engine.generate("m", request(max_tokens=1)))
    assert not any(one.done() for one in asking)
    assert [result.ids for result in await asyncio.gather(*asking)] == [tuple(b"slow")] * 3
