"""Row M2: model folders that are attacks are refused with a reason; nothing outside is opened and nothing runs."""

import asyncio
import shutil
import site
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from inference.engine import EngineError, FinishReason, LoadOptions, ModelState
from inference.registry.listing import list_models
from inference.registry.services import load_here
from tests.inference.engine.processes import REPOSITORY, RunningHost, read, request, running_host, start_program
from tests.inference.engine.tiny_models import letter_tokenizer, save_causal
from tests.inference.registry.evil_models import EVIL

_PROGRAM = """
import sys
from pathlib import Path
from inference.engine import run_host
run_host(Path(sys.argv[1]), loader="tests.inference.registry.watched_loading:load_model")
"""

# What a load may open beside the model: Python and its packages, what the system says of itself, templates' results.
ALLOWED = (sys.prefix, sys.base_prefix, *site.getsitepackages(), str(REPOSITORY), "/proc/", "/sys/", "/dev/")


def start_watched(run_dir: Path) -> subprocess.Popen[str]:
    return start_program(_PROGRAM, str(run_dir))


@pytest.fixture(scope="module")
def host() -> Iterator[RunningHost]:
    with running_host(start_watched) as host:
        yield host


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_causal(tmp_path_factory.mktemp("good") / "good", "llama", letter_tokenizer())


@pytest.fixture
def root(tmp_path: Path, good: Path, host: RunningHost, monkeypatch: pytest.MonkeyPatch) -> Path:
    models, outside = tmp_path / "models", tmp_path / "outside"
    models.mkdir()
    outside.mkdir()
    (outside / "secret.json").write_text("{}")
    shutil.copytree(good, models / "good")
    monkeypatch.setattr(settings, "MODELS_DIRS", [models])
    monkeypatch.setattr(settings, "BUILTIN_MODELS_DIR", tmp_path / "none")
    monkeypatch.setattr(settings, "RUN_DIR", host.run_dir)
    monkeypatch.setattr(settings, "LOAD_AT_START", [])
    return models


async def load(name: str) -> None:
    await load_here(model_id=name, options=LoadOptions(max_sequences=2), revision=0)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", EVIL)
async def test_m2_an_evil_model_is_refused_with_a_reason_and_the_good_one_is_served(
    root: Path, host: RunningHost, name: str
):
    outside = root.parent / "outside"
    shutil.copytree(root / "good", root / name)
    EVIL[name](root / name, outside)

    listed = {model.id: model for model in await list_models()}
    with pytest.raises(EngineError) as refused:
        await load(name)

    assert listed["good"].error is None
    assert listed[name].state in (ModelState.FAILED, ModelState.UNLOADED)
    again = {model.id: model for model in await list_models()}[name]
    assert again.state == ModelState.FAILED
    assert again.error
    assert again.error in refused.value.message
    assert str(root.parent) not in refused.value.message
    assert not (outside / "canary").exists()
    check_log(root, name)

    await load("good")
    outputs = await read(await host.engine.generate("good", request()))
    assert outputs[-1].finish_reason in (FinishReason.LENGTH, FinishReason.STOP)
    await host.commands.unload("good")
    await host.engine.close()
    check_log(root, "good")


def check_log(root: Path, name: str) -> None:
    """Nothing of what the loader did, where it was started at all, was more than a load does."""
    log = root / f"{name}.log"
    events = [line.split(" ", 1) for line in log.read_text().splitlines()] if log.exists() else []
    assert [event for event in events if event[0] not in ("open", "import")] == []
    opened = [rest.split("'")[1] for event, rest in events if event == "open" and "'" in rest]
    strangers = [path for path in opened if not path.startswith((*ALLOWED, str(root / name)))]
    assert strangers == []


def test_m2_the_log_of_a_load_would_show_what_it_opens(root: Path):
    """The test above looks at something: a good model's load does open its weights."""
    asyncio.run(load("good"))
    assert "config.json" in (root / "good.log").read_text()
