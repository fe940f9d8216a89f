"""The desired state of models: it is stored, and every machine converges to it, also after a restart."""

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
from inference.registry.desired_state import (
    DesiredState,
    read_desired_state,
    read_desired_states,
    set_desired,
    set_initially_desired,
    set_undesired,
)
from inference.registry.models import DesiredModel
from inference.registry.reconciler import ReconcileAction, choose_action, initialize_desired_state
from inference.registry.services import ensure_loaded
from shared.accounts.roles import Role
from shared.accounts.services import create_user
from shared.serving.db_threads import run_in_db_thread
from tests.inference.engine.processes import RunningHost, eventually_in_state, running_host, status_of
from tests.inference.running_server import TALKER_CONFIG, RunningServer, add_model, running_server, start_server

NOW = timezone.now()
OPTIONS = LoadOptions(context_size=32, engine="llama.cpp", engine_options=(("flash_attn", "on"), ("threads", 2)))


@pytest.mark.django_db
def test_the_last_change_of_a_model_is_stored_with_its_actor():
    operator = create_user(email="o@example.com", name="O", password="a long one", role=Role.SUPER_ADMIN, now=NOW)
    set_desired(model_id="m", options=LoadOptions(), actor=None, now=NOW)
    set_desired(model_id="m", options=OPTIONS, actor=operator, now=NOW)

    assert read_desired_state("m") == DesiredState(model_id="m", is_desired=True, options=OPTIONS, revision=2)
    assert DesiredModel.objects.get().changed_by == operator

    set_undesired(model_id="m", actor=operator, now=NOW)
    assert read_desired_state("m") == DesiredState(model_id="m", is_desired=False, revision=3)


@pytest.mark.django_db
def test_m5_an_unload_during_a_load_wins():
    set_undesired(model_id="m", actor=None, now=NOW)
    revision = read_desired_state("m").revision
    set_desired(model_id="m", options=OPTIONS, actor=None, now=NOW, since_revision=revision)
    set_desired(
        model_id="m", options=LoadOptions(), actor=None, now=NOW, since_revision=revision
    )  # the later one of two loads
    assert read_desired_state("m") == DesiredState(model_id="m", is_desired=True, revision=3)

    set_undesired(model_id="m", actor=None, now=NOW)
    set_desired(model_id="m", options=OPTIONS, actor=None, now=NOW, since_revision=3)
    assert not read_desired_state("m").is_desired


@pytest.mark.django_db
def test_a_model_that_was_never_changed_has_revision_0():
    assert read_desired_state("m") == DesiredState(model_id="m", is_desired=False, options=LoadOptions(), revision=0)
    assert read_desired_states() == {}


@pytest.mark.django_db
def test_initial_models_are_desired_only_in_a_new_installation():
    set_initially_desired(model_ids=["a", "b"], now=NOW)
    assert [desired.model_id for desired in read_desired_states().values() if desired.is_desired] == ["a", "b"]

    for model_id in ("a", "b"):
        set_undesired(model_id=model_id, actor=None, now=NOW)
    set_initially_desired(model_ids=["a", "b", "c"], now=NOW)
    assert not any(desired.is_desired for desired in read_desired_states().values())
    assert "c" not in read_desired_states()


@pytest.mark.django_db
def test_models_named_at_a_start_are_desired_and_keep_their_options():
    set_desired(model_id="a", options=OPTIONS, actor=None, now=NOW)
    initialize_desired_state(also=["a", "b"], now=NOW)

    assert read_desired_states() == {
        "a": DesiredState(model_id="a", is_desired=True, options=OPTIONS, revision=1),
        "b": DesiredState(model_id="b", is_desired=True, revision=1),
    }


@pytest.mark.django_db
def test_a_model_has_one_row_and_revisions_count_from_1():
    set_desired(model_id="m", options=LoadOptions(), actor=None, now=NOW)
    with pytest.raises(IntegrityError), transaction.atomic():
        DesiredModel.objects.create(model_id="m", is_desired=True, revision=1, changed_at=NOW)
    with pytest.raises(IntegrityError), transaction.atomic():
        DesiredModel.objects.create(model_id="n", is_desired=True, revision=0, changed_at=NOW)


def status(state: ModelState, revision: int, **rest: object) -> ModelStatus:
    return ModelStatus(model_id="m", state=state, revision=revision, **rest)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("host_status", "if_desired", "if_undesired"),
    [
        (None, ReconcileAction.LOAD, None),
        (status(ModelState.LOADED, 2), None, None),
        (status(ModelState.LOADED, 1), ReconcileAction.LOAD, ReconcileAction.UNLOAD),
        (status(ModelState.LOADED, 3), None, None),
        (status(ModelState.LOADING, 1), ReconcileAction.LOAD, ReconcileAction.UNLOAD),
        (status(ModelState.UNLOADING, 1), None, ReconcileAction.UNLOAD),
        (status(ModelState.UNLOADED, 2, suspended=True), None, None),
        (status(ModelState.UNLOADED, 1, suspended=True), ReconcileAction.LOAD, ReconcileAction.UNLOAD),
        (status(ModelState.FAILED, 2, retry_after=9.0), None, None),
        (status(ModelState.FAILED, 2), ReconcileAction.LOAD, None),
        (status(ModelState.FAILED, 1, retry_after=9.0), ReconcileAction.LOAD, ReconcileAction.UNLOAD),
    ],
    ids=lambda value: f"{value.state}-{value.revision}" if isinstance(value, ModelStatus) else "",
)
def test_the_action_for_a_desired_state_and_a_host_status(
    host_status: ModelStatus | None, if_desired: ReconcileAction, if_undesired: ReconcileAction
):
    assert choose_action(DesiredState(model_id="m", is_desired=True, revision=2), host_status) is if_desired
    assert choose_action(DesiredState(model_id="m", is_desired=False, revision=2), host_status) is if_undesired


@dataclass
class TwoMachines:
    """Two servers over one database, each with its own model host. `first` loads `talker` by STOA_LOAD."""

    first: RunningServer
    second: HostClient


@contextmanager
def second_server(stoa: RunningServer, host: RunningHost) -> Iterator[subprocess.Popen[bytes]]:
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
        first = stack.enter_context(running_server(home, hosts[0].run_dir, home / "models", load=["talker"]))
        stack.enter_context(second_server(first, hosts[1]))
        yield TwoMachines(first, hosts[1].commands)


async def wait_for_status(host: HostClient, model_id: str, matches: Callable[[ModelStatus | None], bool]) -> None:
    until = time.monotonic() + 30
    while not matches(status := await status_of(host, model_id)):
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
    await wait_for_status(
        second, "other", lambda status: bool(status and status.report and status.report.context_size == 64)
    )

    await asyncio.to_thread(first.post, "/models/other/unload")
    await wait_for_status(second, "other", lambda status: status is None)
    assert await status_of(second, "talker") is not None


async def test_a_failed_load_changes_no_desired_state(machines: TwoMachines):
    first = machines.first
    add_model(first.models_dir, "broken-here", dict(TALKER_CONFIG))
    answer = await asyncio.to_thread(first.post, "/models/broken-here/load")

    assert answer.status_code == 500
    assert (await asyncio.to_thread(first.get, "/health")).json()["status"] == "healthy"
    await asyncio.to_thread(first.post, "/models/third/load")  # once this load has arrived, that one would have, too
    await eventually_in_state(machines.second, "third", ModelState.LOADED)
    assert await status_of(machines.second, "broken-here") is None


async def test_a_restart_loads_the_desired_models_with_their_options(
    tmp_path_factory: pytest.TempPathFactory,
):
    home: Path = tmp_path_factory.mktemp("restart")
    for name in ("talker", "other"):
        add_model(home / "models", name, dict(TALKER_CONFIG))
    with running_host() as host, running_server(home, host.run_dir, home / "models", load=["talker"]) as stoa:
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
async def test_a_desired_model_that_a_new_host_does_not_know_yet_is_reported_as_loading(
    settings: Settings, tmp_path: Path
):
    add_model(tmp_path, "talker", dict(TALKER_CONFIG))
    with running_host() as host:
        settings.RUN_DIR, settings.MODELS_DIRS = host.run_dir, [tmp_path]
        with pytest.raises(ModelNotLoaded) as undesired:
            await ensure_loaded(model_id="talker")
        await run_in_db_thread(set_desired, model_id="talker", options=LoadOptions(), actor=None, now=NOW)
        with pytest.raises(ModelNotLoaded) as desired:
            await ensure_loaded(model_id="talker")
    assert undesired.value.details == {"state": "unloaded"}
    assert desired.value.details == {"state": "loading", "retry_after": 2}


async def test_o6_without_its_model_host_the_server_is_alive_but_degraded_and_not_ready(
    tmp_path_factory: pytest.TempPathFactory,
):
    home = tmp_path_factory.mktemp("hostless")
    add_model(home / "models", "talker", dict(TALKER_CONFIG))
    with running_host() as host, running_server(home, host.run_dir, home / "models", load=["talker"]) as stoa:
        ready = await asyncio.to_thread(stoa.get, "/readyz")
        assert (ready.status_code, ready.json()["checks"]) == (
            200,
            {"database": "ok", "disk": "ok", "model_host": "ok"},
        )
        host.process.kill()
        host.process.wait(20)
        began = time.monotonic()
        answers = [await asyncio.to_thread(stoa.get, path) for path in ("/readyz", "/livez", "/health", "/models")]
        assert time.monotonic() - began < 60
        ready, alive, health, models = answers
        assert (ready.status_code, ready.json()["checks"]) == (
            503,
            {"database": "ok", "disk": "ok", "model_host": "failed"},
        )
        assert alive.status_code == 200
        assert (health.status_code, health.json()["status"], health.json()["models_loaded"]) == (200, "degraded", 0)
        states = {model["id"]: model["state"] for model in models.json()["models"]}
        assert states["talker"] == "unloaded"
