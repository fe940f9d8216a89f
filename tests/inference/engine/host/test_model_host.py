"""The model host with real processes and real signals."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from inference.engine import (
    ContextLengthExceeded,
    EngineClient,
    EngineDied,
    EngineError,
    FinishReason,
    HostClient,
    HostUnavailable,
    InvalidRequest,
    LoadOptions,
    ModelLoadFailed,
    ModelNotLoaded,
    ModelState,
    ModelStatus,
    run_host,
)
from tests.inference.engine.processes import (
    RunningHost,
    descendants,
    eventually,
    eventually_in_state,
    parent_of,
    process_exists,
    processes_with,
    read,
    request,
    running_host,
    start_host,
    start_program,
    start_real_host,
    status_of,
)


@pytest.fixture
async def host() -> AsyncIterator[RunningHost]:
    with running_host() as host:
        yield host
        await host.engine.close()


def loads(path: Path) -> int:
    return len((path / "loads").read_text().splitlines())


def test_importing_the_engine_imports_no_heavy_library() -> None:
    heavy = "{'torch', 'transformers', 'tokenizers', 'numpy', 'safetensors'}"
    program = f"import sys, inference.engine; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


async def test_commands_without_a_host_raise_host_unavailable(tmp_path: Path) -> None:
    with pytest.raises(HostUnavailable, match=str(tmp_path)):
        await HostClient(tmp_path).models()
    with pytest.raises(HostUnavailable):
        await EngineClient(tmp_path).generate("m", request())


async def test_only_the_owner_can_access_the_run_folder_and_its_sockets(host: RunningHost) -> None:
    await host.commands.load("m", host.folder("m"))
    sockets = list(host.run_dir.glob("*.sock"))
    assert len(sockets) == 2
    assert host.run_dir.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in sockets} == {0o600}


async def test_a_second_host_in_a_run_folder_reports_the_first_and_ends(host: RunningHost) -> None:
    with start_host(host.run_dir) as second:
        said, _ = second.communicate(timeout=20)
    assert second.returncode == 0
    assert "runs already" in said
    assert await host.commands.models() == []


async def test_m5_fifty_concurrent_loads_load_once(host: RunningHost) -> None:
    folder = host.folder("slow")
    reports = await asyncio.gather(*(host.commands.load("m", folder) for _ in range(50)))
    assert loads(folder) == 1
    assert [report.is_shared for report in reports].count(False) == 1
    assert len({replace(report, is_shared=False) for report in reports}) == 1
    assert reports[0].load_time_ms >= 1000


async def test_loading_a_loaded_model_again_changes_nothing(host: RunningHost) -> None:
    folder = host.folder("m")
    first = await host.commands.load("m", folder)
    pid = await host.pid("m")
    assert await host.commands.load("m", folder) == replace(first, is_shared=True)
    assert await host.pid("m") == pid


async def test_a_load_with_other_options_drains_and_reloads_the_model(host: RunningHost) -> None:
    folder = host.folder("m")
    await host.commands.load("m", folder)
    stream = await host.engine.generate("m", request(max_tokens=50))
    report = await host.commands.load("m", folder, LoadOptions(context_size=32))
    assert report.context_size == 32
    assert [output.index for output in await read(stream)] == list(range(50))
    assert loads(folder) == 2


async def test_a_load_with_unsupported_options_is_rejected_and_restores_the_model(host: RunningHost) -> None:
    impossible = LoadOptions(context_size=0)
    with pytest.raises(InvalidRequest) as refused:
        await host.commands.load("m", host.folder("m"), impossible)
    assert refused.value.details == {"parameter": "context_size"}
    assert await host.commands.models() == []
    await host.commands.load("m", host.folder("m"), LoadOptions(context_size=32))
    with pytest.raises(InvalidRequest):
        await host.commands.load("m", host.folder("m"), impossible)
    status = await eventually_in_state(host.commands, "m", ModelState.LOADED)
    assert status.report is not None
    assert status.report.context_size == 32


async def test_a_load_continues_when_its_client_disconnects(host: RunningHost) -> None:
    asking = asyncio.create_task(host.commands.load("m", host.folder("slow")))
    await eventually_in_state(host.commands, "m", ModelState.LOADING)
    asking.cancel()
    assert (await eventually_in_state(host.commands, "m", ModelState.LOADED)).report is not None


async def test_a_request_to_a_loading_model_gets_its_state(host: RunningHost) -> None:
    asking = asyncio.create_task(host.commands.load("m", host.folder("slow")))
    await eventually_in_state(host.commands, "m", ModelState.LOADING)
    with pytest.raises(ModelNotLoaded) as refused:
        await host.engine.generate("m", request())
    assert refused.value.details["state"] == "loading"
    assert refused.value.details["retry_after"] >= 1
    await asking


async def test_a_model_that_was_never_loaded_has_the_state_unloaded(host: RunningHost) -> None:
    with pytest.raises(ModelNotLoaded) as refused:
        await host.engine.generate("m", request())
    assert refused.value.details == {"state": "unloaded"}
    with pytest.raises(ModelNotLoaded):
        await host.commands.unload("m")


async def test_a_failed_load_has_its_reason_and_other_models_run(host: RunningHost) -> None:
    await host.commands.load("good", host.folder("good"))
    with pytest.raises(ModelLoadFailed, match=r"The weights are missing\."):
        await host.commands.load("bad", host.folder("broken"))
    assert await status_of(host.commands, "bad") == ModelStatus(
        model_id="bad", state=ModelState.FAILED, error="The weights are missing."
    )
    assert len(await read(await host.engine.generate("good", request()))) == 5
    with pytest.raises(ModelNotLoaded, match="weights are missing") as refused:
        await host.engine.generate("bad", request())
    assert refused.value.details["state"] == "failed"


async def test_m5_a_process_that_dies_at_load_is_a_failed_load_with_its_stderr_tail(host: RunningHost) -> None:
    folder = host.folder("crashing")
    with pytest.raises(ModelLoadFailed, match="SIGABRT: out of everything"):
        await host.commands.load("m", folder)
    assert loads(folder) == 1
    assert (await host.commands.load("m", host.folder("m"))).model_id == "m"


async def test_m5_unload_waits_for_running_requests_and_rejects_new_ones(host: RunningHost) -> None:
    await host.commands.load("m", host.folder("m"))
    pid = await host.pid("m")
    stream = await host.engine.generate("m", request(max_tokens=60))
    unloading = asyncio.create_task(host.commands.unload("m"))
    await eventually_in_state(host.commands, "m", ModelState.UNLOADING)
    with pytest.raises(ModelNotLoaded) as refused:
        await host.engine.generate("m", request())
    assert refused.value.details["state"] == "unloading"
    assert not unloading.done()
    assert (await read(stream))[-1].index == 59
    await unloading
    assert not process_exists(pid)
    assert await host.commands.models() == []
    assert [path.name for path in host.run_dir.glob("*.sock")] == ["host.sock"]


async def test_limits_of_a_draining_model_do_not_apply_to_the_next(host: RunningHost) -> None:
    await host.commands.load("m", host.folder("m"), LoadOptions(context_size=64))
    stream = await host.engine.generate("m", request(max_tokens=10_000_000))
    with pytest.raises(ContextLengthExceeded):
        await host.engine.generate("m", request(prompt="x" * 65))
    loading = asyncio.create_task(host.commands.load("m", host.folder("m"), LoadOptions(context_size=128)))
    refused: EngineError = ContextLengthExceeded("")
    async with asyncio.timeout(10):
        while isinstance(refused, ContextLengthExceeded):  # until it is told that the model leaves
            await asyncio.sleep(0.01)
            with pytest.raises(EngineError) as caught:
                await host.engine.generate("m", request(prompt="x" * 65))
            refused = caught.value
    assert isinstance(refused, ModelNotLoaded)
    assert refused.details["retry_after"] > 0
    await stream.close()
    await loading
    assert len(await read(await host.engine.generate("m", request(prompt="x" * 65)))) == 5


async def test_a_forced_unload_cancels_running_requests(host: RunningHost) -> None:
    await host.commands.load("m", host.folder("m"))
    pid = await host.pid("m")
    stream = await host.engine.generate("m", request(max_tokens=100_000))
    waiting = asyncio.create_task(host.commands.unload("m"))
    await eventually_in_state(host.commands, "m", ModelState.UNLOADING)
    await host.commands.unload("m", force=True)
    assert not process_exists(pid)
    assert (await read(stream))[-1].finish_reason is FinishReason.CANCELLED
    await waiting


async def test_a_loading_model_can_be_unloaded(host: RunningHost) -> None:
    loading = asyncio.create_task(host.commands.load("m", host.folder("slow")))
    await eventually_in_state(host.commands, "m", ModelState.LOADING)
    await host.commands.unload("m")
    with pytest.raises(ModelLoadFailed, match="unloaded"):
        await loading
    assert await host.commands.models() == []


async def test_m6_a_killed_model_process_fails_its_streams_and_the_next_request_works(host: RunningHost) -> None:
    await host.commands.load("m", host.folder("m"))
    pid = await host.pid("m")
    streams = [await host.engine.generate("m", request(max_tokens=100_000)) for _ in range(3)]
    await asyncio.gather(*(anext(stream) for stream in streams))
    os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(10):
        for stream in streams:
            last = (await read(stream))[-1]
            assert last.finish_reason is FinishReason.ERROR
            assert last.error is not None
            assert last.usage is not None
            assert last.usage.completion_tokens == last.index >= 1
        assert len(await read(await host.engine.generate("m", request()))) == 5
    assert await host.pid("m") != pid


async def test_m6_a_crash_loop_ends_in_failed_with_the_stderr_tail(host: RunningHost) -> None:
    await host.commands.load("m", host.folder("m"))
    for _ in range(3):
        with contextlib.suppress(EngineDied):  # it may die before it has said that it accepts
            stream = await host.engine.generate("m", request(prompt="die"))
            assert (await read(stream))[-1].finish_reason is FinishReason.ERROR
    status = await eventually_in_state(host.commands, "m", ModelState.FAILED)
    assert status.error is not None
    assert "SIGSEGV: the fake was told to die" in status.error
    with pytest.raises(ModelNotLoaded, match="SIGSEGV"):
        await host.engine.generate("m", request())
    await host.commands.load("m", host.folder("m"))
    assert len(await read(await host.engine.generate("m", request()))) == 5


async def test_m6_a_process_that_answers_no_ping_is_replaced(host: RunningHost) -> None:
    await host.commands.load("m", host.folder("m"))
    pid = await host.pid("m")
    os.kill(pid, signal.SIGSTOP)
    await eventually(lambda: not process_exists(pid), seconds=20)
    assert len(await read(await host.engine.generate("m", request()))) == 5


async def test_a_killed_fork_server_costs_only_a_restart(host: RunningHost) -> None:
    await host.commands.load("m", host.folder("m"))
    pid = await host.pid("m")
    fork_server = parent_of(pid)
    os.kill(fork_server, signal.SIGKILL)
    await eventually(lambda: not process_exists(pid))
    await eventually_in_state(host.commands, "m", ModelState.LOADED)
    assert len(await read(await host.engine.generate("m", request()))) == 5


def test_the_fork_server_imports_torch_without_using_cuda() -> None:
    code = """
import torch

for name in ("_lazy_init", "current_device", "device_count", "get_device_capability", "is_available"):
    setattr(torch.cuda, name, lambda *_, name=name: print("CUDA is used:", name))
import inference.engine.host.loading
"""
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[4], capture_output=True, text=True, timeout=200
    )
    assert (run.returncode, run.stdout) == (0, ""), run.stderr


async def test_m6_a_killed_host_leaves_no_process_and_another_can_start(host: RunningHost) -> None:
    await host.commands.load("m", host.folder("m"))
    await host.commands.load("n", host.folder("n"))
    stream = await host.engine.generate("m", request(max_tokens=100_000))
    started = descendants(host.process.pid)
    assert len(started) >= 3
    host.process.kill()
    await eventually(lambda: not any(map(process_exists, started)))
    assert (await read(stream))[-1].finish_reason is FinishReason.ERROR
    with pytest.raises(HostUnavailable):
        await host.engine.generate("m", request())
    with start_host(host.run_dir) as second:
        assert second.stdout is not None
        assert "ready" in second.stdout.readline()
        assert await host.commands.models() == []
        second.terminate()


@pytest.mark.parametrize("seconds", [0, 0.02, 0.05, 0.1, 0.3])
async def test_m6_a_host_killed_while_it_starts_models_leaves_no_process(host: RunningHost, seconds: float) -> None:
    loads = [asyncio.create_task(host.commands.load(name, host.folder(name))) for name in "abcdefgh"]
    await asyncio.sleep(seconds)
    host.process.kill()
    host.process.wait()
    await asyncio.gather(*loads, return_exceptions=True)
    await eventually(lambda: not processes_with(str(host.run_dir)), seconds=5)


@pytest.mark.parametrize("seconds", [0.1, 0.3, 0.6, 1, 2, 4])
async def test_m6_a_host_killed_while_it_starts_leaves_no_process(
    seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It imports torch and compiles meanwhile, with a compiler that starts others."""
    (tmp_path / "c++").write_text("#!/bin/sh\nsleep 600\n")
    (tmp_path / "c++").chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    arguments = ("--run-dir", str(tmp_path / "run"), "--compiled-dir", str(tmp_path / "compiled"))
    with start_program("from inference.engine.host.__main__ import main; main()", *arguments) as host:
        await asyncio.sleep(seconds)
        host.kill()
    await eventually(lambda: not processes_with(str(tmp_path / "run")), seconds=5)


async def test_m6_a_process_forked_by_a_model_ends_with_it(host: RunningHost) -> None:
    folder = host.folder("forking")
    loading = asyncio.create_task(host.commands.load("m", folder))
    await eventually(lambda: (folder / "loads").exists())
    model = int((folder / "loads").read_text())
    await eventually(lambda: len(descendants(model)) == 1)
    [forked] = descendants(model)
    host.process.kill()
    with pytest.raises(HostUnavailable):
        await loading
    await eventually(lambda: not process_exists(forked), seconds=5)


@pytest.mark.parametrize("how", ["SIGTERM", "SIGINT", "stop"])
async def test_a_stopped_host_leaves_no_process_and_no_socket(host: RunningHost, how: str) -> None:
    await host.commands.load("m", host.folder("m"))
    await host.commands.load("slow", host.folder("m2"))
    stream = await host.engine.generate("m", request(max_tokens=100_000))
    started = descendants(host.process.pid)
    if how == "stop":
        await host.commands.stop()
    else:
        host.process.send_signal(signal.Signals[how])
    assert await asyncio.to_thread(host.process.wait, 20) == 0
    assert (await read(stream))[-1].finish_reason is FinishReason.CANCELLED
    await eventually(lambda: not any(map(process_exists, started)))
    assert list(host.run_dir.glob("*.sock")) == []


async def test_a_host_stops_while_its_first_model_waits_for_the_import_of_torch() -> None:
    with running_host(start_real_host) as host:
        loading = asyncio.create_task(host.commands.load("m", host.folder("m")))
        await eventually_in_state(host.commands, "m", ModelState.LOADING)
        started = descendants(host.process.pid)
        host.process.terminate()
        with pytest.raises((ModelLoadFailed, HostUnavailable)):
            await loading
        assert await asyncio.to_thread(host.process.wait, 20) == 0
        await eventually(lambda: not any(map(process_exists, started)))


async def test_a_host_with_die_with_parent_ends_with_its_parent() -> None:
    program = (
        "import subprocess, sys, tempfile, time\n"
        "command = [sys.executable, '-m', 'inference.engine.host', '--die-with-parent', '--run-dir', sys.argv[1]]\n"
        "host = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)\n"
        "assert 'ready' in host.stdout.readline()\n"
        "print(host.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with tempfile.TemporaryDirectory(prefix="stoa") as folder:
        with start_program(program, folder) as parent:
            assert parent.stdout is not None
            pid = int(parent.stdout.readline())
            started = [pid, *descendants(pid)]  # the fork server still imports torch
            parent.kill()
        await eventually(lambda: not any(map(process_exists, started)), seconds=20)


@pytest.mark.parametrize("seconds", [0, 0.05, 0.1, 0.2, 0.4, 0.8])
async def test_a_starting_host_ends_with_its_parent(seconds: float, tmp_path: Path) -> None:
    program = (
        "import os, subprocess, sys, time\n"
        "command = [sys.executable, '-m', 'inference.engine.host', '--run-dir', sys.argv[1]]\n"
        "host = subprocess.Popen([*command, '--die-with-parent', str(os.getpid())], stdout=subprocess.DEVNULL)\n"
        "print(host.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with start_program(program, str(tmp_path / "run")) as parent:
        assert parent.stdout is not None
        assert process_exists(int(parent.stdout.readline()))
        await asyncio.sleep(seconds)
        parent.kill()
    await eventually(lambda: not processes_with(str(tmp_path / "run")), seconds=5)


def test_a_run_folder_with_too_long_a_path_is_rejected_with_advice(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="too long a path"):
        run_host(tmp_path / ("x" * 100))
