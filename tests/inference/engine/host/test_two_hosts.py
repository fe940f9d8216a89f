"""Two model hosts on one machine that both want the last of its memory. Real processes, and a machine of files."""

import asyncio
import functools
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from inference.engine import (
    EngineOverloaded,
    HostOptions,
    InvalidRequest,
    LoadOptions,
    LoadReport,
    ModelLoadFailed,
    ModelState,
)
from inference.engine.host.memory_estimate import estimate_memory
from tests.inference.engine.processes import (
    RunningHost,
    eventually,
    eventually_in_state,
    read,
    request,
    running_host,
    start_host,
    status_of,
)

ADMISSION_TIMEOUT = 3.0
MIB = 2**20
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "hidden_size": 1,
    "max_position_embeddings": 64,
}


class Machine:
    """A machine with 1000 MiB, of which 600 are available. A model takes 400, most of which is a hole in its file."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._meminfo = root / "proc" / "meminfo"
        for folder in (self._meminfo.parent, root / "dev" / "shm"):
            folder.mkdir(parents=True)
        self.set_available(600)

    def set_available(self, mebibytes: int) -> None:
        self._meminfo.write_text(self._text(mebibytes))

    def model(self, host: RunningHost, name: str, mebibytes: int = 400) -> Path:
        """Return a model that leaves 200 MiB when it is loaded."""
        folder = host.folder(name)
        size = mebibytes * MIB
        header = json.dumps({"w": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
        with (folder / "model.safetensors").open("wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            file.truncate(8 + len(header) + size)
        (folder / "config.json").write_text(json.dumps(CONFIG))
        (folder / "meminfo").symlink_to(self._meminfo)
        (folder / "meminfo-loaded").write_text(self._text(200))
        assert estimate_memory(folder, LoadOptions()).load_bytes == size
        return folder

    def _text(self, available: int) -> str:
        return f"MemTotal: {1000 * 1024} kB\nMemAvailable: {available * 1024} kB\n"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def hosts(machine: Machine) -> Iterator[list[RunningHost]]:
    options = HostOptions(
        system_root=str(machine.root), admission_timeout=ADMISSION_TIMEOUT, first_cooldown=0, reservation=0
    )
    start = functools.partial(start_host, policy=options)
    with running_host(start) as one, running_host(start) as other:
        yield [one, other]


async def load(host: RunningHost, folder: Path) -> LoadReport:
    return await host.commands.load(folder.name, folder, LoadOptions())


async def test_of_two_hosts_that_want_the_last_memory_one_loads_and_the_other_is_told_why(
    machine: Machine, hosts: list[RunningHost]
) -> None:
    folders = [machine.model(host, "slow") for host in hosts]
    async with asyncio.timeout(ADMISSION_TIMEOUT + 5):
        results = await asyncio.gather(*map(load, hosts, folders), return_exceptions=True)
    (winner,) = [number for number, result in enumerate(results) if isinstance(result, LoadReport)]
    refused, loser = results[1 - winner], hosts[1 - winner]
    assert isinstance(refused, EngineOverloaded)
    assert refused.details == {"retry_after": 5, "reason": "no_room"}
    assert refused.message == (
        "There is no memory for slow, which takes about 419430400 bytes: 209715200 are available on this machine, "
        "whose programs, or other models, use the rest. End some of them, unload a model, or try again later."
    )
    assert not (folders[1 - winner] / "loads").exists()
    status = await status_of(loser.commands, "slow")
    assert status is None or status.state is not ModelState.LOADING
    assert len(await read(await hosts[winner].engine.generate("slow", request()))) == 5

    loading = asyncio.create_task(load(loser, folders[1 - winner]))
    await eventually_in_state(loser.commands, "slow", ModelState.LOADING)
    await hosts[winner].commands.unload("slow")
    machine.set_available(600)
    await loading
    assert len(await read(await loser.engine.generate("slow", request()))) == 5
    for host in hosts:
        await host.engine.close()


async def test_of_two_loads_of_one_host_one_takes_the_last_memory(machine: Machine, hosts: list[RunningHost]) -> None:
    folders = [machine.model(hosts[0], name) for name in ("slow-a", "slow-b")]
    results = await asyncio.gather(*(load(hosts[0], folder) for folder in folders), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["EngineOverloaded", "LoadReport"]


async def test_a_host_that_is_killed_while_it_loads_leaves_the_memory_to_the_other(
    machine: Machine, hosts: list[RunningHost]
) -> None:
    killed, other = hosts
    stuck = machine.model(killed, "forking")
    loading = asyncio.create_task(load(killed, stuck))
    await eventually((stuck / "loads").exists)
    with pytest.raises(EngineOverloaded, match="another model host of this machine is loading a model"):
        await load(other, machine.model(other, "waiting"))
    os.kill(killed.process.pid, signal.SIGKILL)
    await asyncio.gather(loading, return_exceptions=True)
    await load(other, machine.model(other, "next"))


async def test_a_failed_load_leaves_the_memory_to_the_other_host(machine: Machine, hosts: list[RunningHost]) -> None:
    with pytest.raises(ModelLoadFailed):
        await load(hosts[0], machine.model(hosts[0], "broken"))
    await load(hosts[1], machine.model(hosts[1], "model"))


async def test_a_model_over_all_memory_of_the_machine_is_refused_at_once(
    machine: Machine, hosts: list[RunningHost]
) -> None:
    with pytest.raises(InvalidRequest, match=r"takes about 1049624576 bytes .* has 1048576000"):
        async with asyncio.timeout(ADMISSION_TIMEOUT / 2):
            await load(hosts[0], machine.model(hosts[0], "huge", 1001))


async def test_small_loads_of_two_hosts_do_not_wait_for_each_other(machine: Machine, hosts: list[RunningHost]) -> None:
    stuck = machine.model(hosts[0], "forking")
    loading = asyncio.create_task(load(hosts[0], stuck))
    await eventually((stuck / "loads").exists)
    await load(hosts[1], machine.model(hosts[1], "small", 150))
    await hosts[0].commands.unload("forking", force=True)
    await asyncio.gather(loading, return_exceptions=True)
