"""What operators want is kept, and every machine comes to it by itself, also after a restart."""

import asyncio
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone
from pytest_django import Settings

from inference.engine import HostClient, LoadOptions, ModelNotLoaded, ModelState, ModelStatus
from inference.registry.models import WantedModel
from inference.registry.reconciling import Work, begin, what_to_do
from inference.registry.services import ensure_loaded
from inference.registry.wanted import (
    Wish,
    off_the_loop,
    read_wish,
    read_wishes,
    unwant_model,
    want_first_models,
    want_model,
)
from shared.accounts.roles import Role
from shared.accounts.services import create_user
from tests.inference.engine.processes import RunningHost, eventually_in_state, running_host, status_of
from tests.inference.served import TALKER_CONFIG, ServedStoa, add_model, served_stoa, start_server

NOW = timezone.now()
OPTIONS = LoadOptions(context_size=32, quantization="int8")


@pytest.mark.django_db
def test_the_last_word_on_a_model_is_kept_with_who_said_it():
    operator = create_user(email="o@example.com", name="O", password="a long one", role=Role.SUPER_ADMIN, now=NOW)
    want_model(model_id="m", options=LoadOptions(), actor=None, now=NOW)
    want_model(model_id="m", options=OPTIONS, actor=operator, now=NOW)

    assert read_wish("m") == Wish(model_id="m", is_wanted=True, options=OPTIONS, revision=2)
    assert WantedModel.objects.get().changed_by == operator

    unwant_model(model_id="m", actor=operator, now=NOW)
    assert read_wish("m") == Wish(model_id="m", is_wanted=False, revision=3)


@pytest.mark.django_db
def test_m5_who_unloads_a_model_while_it_loads_has_the_last_word():
    unwant_model(model_id="m", actor=None, now=NOW)
    since = read_wish("m").revision
    want_model(model_id="m", options=OPTIONS, actor=None, now=NOW, since=since)
    want_model(model_id="m", options=LoadOptions(), actor=None, now=NOW, since=since)  # of two loads the later one
    assert read_wish("m") == Wish(model_id="m", is_wanted=True, revision=3)

    unwant_model(model_id="m", actor=None, now=NOW)
    want_model(model_id="m", options=OPTIONS, actor=None, now=NOW, since=3)
    assert not read_wish("m").is_wanted


@pytest.mark.django_db
def test_a_model_of_which_nobody_spoke_has_revision_0():
    assert read_wish("m") == Wish(model_id="m", is_wanted=False, options=LoadOptions(), revision=0)
    assert read_wishes() == {}


@pytest.mark.django_db
def test_the_first_models_are_wanted_the_first_time_only():
    want_first_models(model_ids=["a", "b"], now=NOW)
    assert [wish.model_id for wish in read_wishes().values() if wish.is_wanted] == ["a", "b"]

    for model_id in ("a", "b"):
        unwant_model(model_id=model_id, actor=None, now=NOW)
    want_first_models(model_ids=["a", "b", "c"], now=NOW)
    assert not any(wish.is_wanted for wish in read_wishes().values())
    assert "c" not in read_wishes()


@pytest.mark.django_db
def test_what_a_start_names_is_wanted_from_then_on_and_keeps_its_options():
    want_model(model_id="a", options=OPTIONS, actor=None, now=NOW)
    begin(also=["a", "b"], now=NOW)

    assert read_wishes() == {
        "a": Wish(model_id="a", is_wanted=True, options=OPTIONS, revision=1),
        "b": Wish(model_id="b", is_wanted=True, revision=1),
    }


@pytest.mark.django_db
def test_a_model_has_one_row_and_revisions_count_from_1():
    want_model(model_id="m", options=LoadOptions(), actor=None, now=NOW)
    with pytest.raises(IntegrityError), transaction.atomic():
        WantedModel.objects.create(model_id="m", is_wanted=True, revision=1, changed_at=NOW)
    with pytest.raises(IntegrityError), transaction.atomic():
        WantedModel.objects.create(model_id="n", is_wanted=True, revision=0, changed_at=NOW)


def said(state: ModelState, revision: int, **rest: object) -> ModelStatus:
    return ModelStatus(model_id="m", state=state, revision=revision, **rest)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "when_wanted", "when_not"),
    [
        (None, Work.LOAD, None),
        (said(ModelState.LOADED, 2), None, None),
        (said(ModelState.LOADED, 1), Work.LOAD, Work.UNLOAD),
        (said(ModelState.LOADED, 3), None, None),
        (said(ModelState.LOADING, 1), Work.LOAD, Work.UNLOAD),
        (said(ModelState.UNLOADING, 1), None, Work.UNLOAD),
        (said(ModelState.UNLOADED, 2, resting=True), None, None),
        (said(ModelState.UNLOADED, 1, resting=True), Work.LOAD, Work.UNLOAD),
        (said(ModelState.FAILED, 2, retry_after=9.0), None, None),
        (said(ModelState.FAILED, 2), Work.LOAD, None),
        (said(ModelState.FAILED, 1, retry_after=9.0), Work.LOAD, Work.UNLOAD),
    ],
    ids=lambda value: f"{value.state}-{value.revision}" if isinstance(value, ModelStatus) else "",
)
def test_what_a_machine_has_to_do_about_a_wish(status: ModelStatus | None, when_wanted: Work, when_not: Work):
    assert what_to_do(Wish(model_id="m", is_wanted=True, revision=2), status) is when_wanted
    assert what_to_do(Wish(model_id="m", is_wanted=False, revision=2), status) is when_not


@dataclass
class TwoMachines:
    """Two servers over one database, each with a model host of its own. `first` has `talker` loaded by STOA_LOAD."""

    first: ServedStoa
    second: HostClient


@contextmanager
def second_server(stoa: ServedStoa, host: RunningHost) -> Iterator[subprocess.Popen[bytes]]:
    environment = stoa.environment | {"STOA_RUN_DIR": str(host.run_dir)}
    process, _ = start_server(environment, stoa.log.with_name("second.log"))
    try:
        yield process
    finally:
        process.terminate()
        process.wait(45)


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoMachines]:
    home = tmp_path_factory.mktemp("machines")
    for name in ("talker", "other", "third"):
        add_model(home / "models", name, dict(TALKER_CONFIG))
    with ExitStack() as stack:
        hosts = [stack.enter_context(running_host()) for _ in range(2)]
        first = stack.enter_context(served_stoa(home, hosts[0].run_dir, home / "models", load=["talker"]))
        stack.enter_context(second_server(first, hosts[1]))
        yield TwoMachines(first, hosts[1].commands)


async def eventually_as(host: HostClient, model_id: str, holds: Callable[[ModelStatus | None], bool]) -> None:
    until = time.monotonic() + 30
    while not holds(status := await status_of(host, model_id)):
        assert time.monotonic() < until, status
        await asyncio.sleep(0.05)


async def test_a_load_and_an_unload_reach_every_machine(machines: TwoMachines):
    first, second = machines.first, machines.second
    await eventually_in_state(second, "talker", ModelState.LOADED)

    answer = await asyncio.to_thread(first.post, "/models/other/load", {"context_size": 128})
    assert answer.status_code == 200
    status = await eventually_in_state(second, "other", ModelState.LOADED)
    assert status.options == LoadOptions(context_size=128)

    answer = await asyncio.to_thread(first.post, "/models/other/load", {"context_size": 64})
    assert answer.json()["context_size"] == 64
    await eventually_as(
        second, "other", lambda status: bool(status and status.report and status.report.context_size == 64)
    )

    await asyncio.to_thread(first.post, "/models/other/unload")
    await eventually_as(second, "other", lambda status: status is None)
    assert await status_of(second, "talker") is not None


async def test_a_load_that_fails_is_wanted_nowhere(machines: TwoMachines):
    first = machines.first
    add_model(first.models_dir, "broken-here", dict(TALKER_CONFIG))
    answer = await asyncio.to_thread(first.post, "/models/broken-here/load")

    assert answer.status_code == 500
    assert (await asyncio.to_thread(first.get, "/health")).json()["status"] == "healthy"
    await asyncio.to_thread(first.post, "/models/third/load")  # by the time that this has arrived, so would that
    await eventually_in_state(machines.second, "third", ModelState.LOADED)
    assert await status_of(machines.second, "broken-here") is None


async def test_a_restart_brings_back_what_was_loaded_with_its_options_and_not_what_was_unloaded(
    tmp_path_factory: pytest.TempPathFactory,
):
    home: Path = tmp_path_factory.mktemp("restart")
    for name in ("talker", "other"):
        add_model(home / "models", name, dict(TALKER_CONFIG))
    with running_host() as host, served_stoa(home, host.run_dir, home / "models", load=["talker"]) as stoa:
        assert (await asyncio.to_thread(stoa.post, "/models/other/load", {"batch_size": 7})).status_code == 200
        assert (await asyncio.to_thread(stoa.post, "/models/talker/unload")).status_code == 200
        environment = stoa.environment
    with running_host() as host:
        process, _ = start_server(environment | {"STOA_RUN_DIR": str(host.run_dir)}, home / "again.log")
        try:
            status = await eventually_in_state(host.commands, "other", ModelState.LOADED)
            assert status.options == LoadOptions(batch_size=7)
            assert [status.model_id for status in await host.commands.models()] == ["other"]
        finally:
            process.terminate()
            process.wait(45)


@pytest.mark.django_db(transaction=True)
async def test_a_wanted_model_that_a_new_host_does_not_know_yet_is_one_to_wait_for(settings: Settings, tmp_path: Path):
    add_model(tmp_path, "talker", dict(TALKER_CONFIG))
    with running_host() as host:
        settings.RUN_DIR, settings.MODELS_DIRS = host.run_dir, [tmp_path]
        with pytest.raises(ModelNotLoaded) as unwanted:
            await ensure_loaded(model_id="talker")
        await off_the_loop(want_model, model_id="talker", options=LoadOptions(), actor=None, now=NOW)
        with pytest.raises(ModelNotLoaded) as wanted:
            await ensure_loaded(model_id="talker")
    assert unwanted.value.details == {"state": "unloaded"}
    assert wanted.value.details == {"state": "loading", "retry_after": 2}


async def test_o6_without_its_model_host_the_server_is_not_ready_but_alive_and_says_that_it_is_degraded(
    tmp_path_factory: pytest.TempPathFactory,
):
    home = tmp_path_factory.mktemp("hostless")
    add_model(home / "models", "talker", dict(TALKER_CONFIG))
    with running_host() as host, served_stoa(home, host.run_dir, home / "models", load=["talker"]) as stoa:
        ready = await asyncio.to_thread(stoa.get, "/readyz")
        assert (ready.status_code, ready.json()["checks"]) == (200, {"database": "ok", "model_host": "ok"})
        host.process.kill()
        host.process.wait(20)
        began = time.monotonic()
        answers = [await asyncio.to_thread(stoa.get, path) for path in ("/readyz", "/livez", "/health", "/models")]
        assert time.monotonic() - began < 60
        ready, alive, health, models = answers
        assert (ready.status_code, ready.json()["checks"]) == (503, {"database": "ok", "model_host": "failed"})
        assert alive.status_code == 200
        assert (health.status_code, health.json()["status"], health.json()["models_loaded"]) == (200, "degraded", 0)
        states = {model["id"]: model["state"] for model in models.json()["models"]}
        assert states["talker"] == "unloaded"
