"""Row M2: malicious model folders are refused with a reason; nothing outside them is opened and nothing is run."""

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
from inference.registry.model_status import list_models
from inference.registry.services import load_on_host
from tests.inference.engine.processes import REPOSITORY, RunningHost, read, request, running_host, start_program
from tests.inference.engine.tiny_models import letter_tokenizer, save_causal
from tests.inference.registry.malicious_models import MALICIOUS

pytestmark = pytest.mark.no_database

_PROGRAM = """
import sys
from pathlib import Path
from inference.engine import run_host
run_host(Path(sys.argv[1]), loader="tests.inference.registry.audited_loading:load_model")
"""

# Paths that a load may open beside the model: Python and its packages, this repository, and system information.
ALLOWED = (sys.prefix, sys.base_prefix, *site.getsitepackages(), str(REPOSITORY), "/proc/", "/sys/", "/dev/")


def start_audited_host(run_dir: Path) -> subprocess.Popen[str]:
    return start_program(_PROGRAM, str(run_dir))


@pytest.fixture(scope="module")
def host() -> Iterator[RunningHost]:
    with running_host(start_audited_host) as host:
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
    await load_on_host(model_id=name, options=LoadOptions(max_sequences=2), revision=0)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", MALICIOUS)
async def test_m2_a_malicious_model_is_refused_with_a_reason_and_a_good_one_is_served(
    root: Path, host: RunningHost, name: str
):
    outside = root.parent / "outside"
    shutil.copytree(root / "good", root / name)
    MALICIOUS[name](root / name, outside)

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
    """Assert that the loader, if it ran, only imported modules and opened allowed files."""
    log = root / f"{name}.log"
    events = [line.split(" ", 1) for line in log.read_text().splitlines()] if log.exists() else []
    assert [event for event in events if event[0] not in ("open", "import")] == []
    opened = [rest.split("'")[1] for event, rest in events if event == "open" and "'" in rest]
    unexpected = [path for path in opened if not path.startswith((*ALLOWED, str(root / name)))]
    assert unexpected == []


def test_m2_the_audit_log_contains_opened_files(root: Path):
    """Check that the test above would see opened files: a good load opens its config."""
    asyncio.run(load("good"))
    assert "config.json" in (root / "good.log").read_text()
