"""`deploy/run backup` under concurrent writes, and `deploy/run restore` into another installation."""

import contextlib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
import yaml
from steps.backup import _copy_tree
from steps.terminal import StepError

from tests.commerce.live_server import (
    REPOSITORY,
    ServedShop,
    copy_shop,
    manage,
    shop_environment,
    start_server,
    url_of,
)
from tests.deploy.conftest import DEPLOY
from tests.faults.test_database import add_address, own_id
from tests.inference.running_server import run_manage
from tests.postgresql import LocalPostgresql, find_binaries

# One process for all: starting one takes as long as what it does.
READ_DATABASE = """
import json
from django.apps import apps
from django.core.checks import run_checks
from commerce.addresses.models import Address
problems = [problem.id for problem in run_checks(databases=["default"])]
counts = {model._meta.label: model._base_manager.count() for model in apps.get_models()}
print(json.dumps([counts, list(Address.objects.values_list("title", flat=True)), problems]))
"""
# Models whose rows are added by the concurrent writes or by the tests' own sign-ins.
MAX_WRITES = 45  # of each of two threads: a customer has at most a hundred addresses
GROWING_MODELS = {"commerce_addresses.Address", "accounts.SignIn", "api.KeyedRequest"}


@dataclass
class Installation:
    """Folder and database of an installation."""

    home: Path
    database_url: str

    @property
    def environment(self) -> dict[str, str]:
        database = {"DATABASE_URL": self.database_url, "STOA_MODELS_DIR": str(self.home / "models")}
        return shop_environment(str(self.home)) | database


@pytest.fixture(params=["sqlite", "postgresql"])
def installations(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Installation, Installation]]:
    """Two empty installations: each has a folder and a database server of its own."""
    with contextlib.ExitStack() as stack:

        def install(name: str) -> Installation:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"stoa-{name}")))
            if request.param == "sqlite":
                return Installation(home, f"sqlite:///{home}/stoa.sqlite3")
            binaries = find_binaries()
            if binaries is None:
                reason = "PostgreSQL is not installed source. To run this: apt-get install postgresql."
                pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
            server = LocalPostgresql(binaries)
            stack.callback(server.stop)
            server.start()
            return Installation(home, server.url)

        yield install("source"), install("target")


@contextlib.contextmanager
def serving(installation: Installation, users: list[dict[str, str]]) -> Iterator[ServedShop]:
    log = installation.home / f"log-{time.monotonic_ns()}"
    process = start_server(installation.environment, log)
    try:
        yield ServedShop(url_of(process, log), users, log, installation.environment)
    finally:
        process.terminate()
        process.wait(60)


@contextlib.contextmanager
def writing(shop: ServedShop, headers: dict[str, str]) -> Iterator[list[str]]:
    """Write addresses in two threads meanwhile; yield the titles of those that were acknowledged."""
    acknowledged: list[str] = []
    stopping, customer = threading.Event(), own_id(shop, headers)

    def write(number: int) -> None:
        for attempt in itertools.takewhile(lambda _: not stopping.wait(0.25), range(MAX_WRITES)):
            response = add_address(shop.url, headers, customer, f"written {number} {attempt}")
            assert response.status_code == 201, response.text
            acknowledged.append(f"written {number} {attempt}")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield acknowledged
    finally:
        stopping.set()
        for thread in threads:
            thread.join(120)


def deploy_run(installation: Installation, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(DEPLOY / "run"), *arguments],
        cwd=REPOSITORY,
        env=installation.environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def read_database(installation: Installation) -> tuple[dict[str, int], set[str], list[str]]:
    """Return the number of rows of each model, the titles of the addresses, and what Django's checks find."""
    printed = manage(installation.environment, "shell", "-v", "0", "-c", READ_DATABASE)
    counts, titles, problems = json.loads(printed.splitlines()[-1])
    return {name: count for name, count in counts.items() if name not in GROWING_MODELS}, set(titles), problems


def upload(shop: ServedShop, headers: dict[str, str]) -> str:
    """Upload a file and return the path of its URL."""
    files = {
        "attachment[]": ("paper.pdf", b"%PDF-1.4\n1 0 obj\n<<>>\nendobj\ntrailer\n<<>>\n%%EOF\n", "application/pdf")
    }
    response = httpx2.post(f"{shop.url}/api/attachments", files=files, headers=headers, timeout=60)
    assert response.status_code == 200, response.text
    return str(response.json()[0]["original"]).replace(shop.url, "")


@pytest.mark.timeout(600)
def test_a_backup_during_writes_restores_complete_and_sessions_stay_valid(
    installations: tuple[Installation, Installation], tmp_path: Path
):
    source, target = installations
    users = copy_shop(source.home, "" if "sqlite" in source.database_url else source.database_url)
    done = run_manage(
        source.environment | {"DJANGO_SETTINGS_MODULE": "inference.config.settings.test"}, "migrate", "-v0"
    )
    assert done.returncode == 0, done.stderr
    (source.home / "models" / "mine").mkdir(parents=True)
    (source.home / "models" / "mine" / "config.json").write_text('{"of": "mine"}')
    with serving(source, users) as shop:
        headers = shop.headers("CUSTOMER")
        path = upload(shop, headers)
        with writing(shop, headers) as acknowledged:
            while len(acknowledged) < 5:
                time.sleep(0.05)
            before = list(acknowledged)
            made = deploy_run(source, "backup", str(tmp_path / "backup"))
        assert made.returncode == 0, made.stdout + made.stderr
        assert len(acknowledged) > len(before)  # written during the backup

    restored = deploy_run(target, "restore", str(tmp_path / "backup"))

    assert restored.returncode == 0, restored.stdout + restored.stderr
    counts, titles, problems = read_database(target)
    assert set(before) <= titles
    assert counts == read_database(source)[0]
    assert (target.home / "models" / "mine" / "config.json").read_text() == '{"of": "mine"}'
    assert "audit.W001" not in problems
    manage(target.environment, "analytics", "reconcile")
    with serving(target, users) as shop:
        me = httpx2.get(f"{shop.url}/api/me", headers=headers, timeout=60)
        assert me.status_code == 200  # the JWT key was restored
        assert shop.headers("STORE_OWNER")  # the password hashes were restored
        file = httpx2.get(shop.url + path, timeout=60)
        assert (file.status_code, file.content[:8]) == (200, b"%PDF-1.4")


@pytest.mark.timeout(300)
def test_a_backup_is_private_and_restore_overwrites_nothing(tmp_path: Path):
    with tempfile.TemporaryDirectory(prefix="stoa-source") as folder:
        source = Installation(Path(folder), f"sqlite:///{folder}/stoa.sqlite3")
        copy_shop(folder)
        backup = tmp_path / "backup"
        assert deploy_run(source, "backup", str(backup)).returncode == 0
        assert backup.stat().st_mode & 0o077 == 0
        assert {path.name for path in backup.iterdir()} >= {
            "database-commerce",
            "secret.key",
            "jwt.key",
            "manifest.json",
        }
        assert [path for path in backup.iterdir() if path.stat().st_mode & 0o077] == []

        second = deploy_run(source, "backup", str(backup))
        assert (second.returncode, "is not empty" in second.stderr) == (1, True)
        overwriting = deploy_run(source, "restore", str(backup))
        assert (overwriting.returncode, "Restore into an empty folder" in overwriting.stderr) == (1, True)
        (backup / "database-inference").touch()
        with tempfile.TemporaryDirectory(prefix="stoa-target") as elsewhere:
            target = Installation(Path(elsewhere), f"sqlite:///{elsewhere}/stoa.sqlite3")
            mismatched = deploy_run(target, "restore", str(backup))
            assert (mismatched.returncode, "no target for database-inference" in mismatched.stderr) == (1, True)
            assert not (target.home / "stoa.sqlite3").exists()
        (backup / "manifest.json").unlink()
        incomplete = deploy_run(source, "restore", str(backup))
        assert (incomplete.returncode, "is not a complete backup" in incomplete.stderr) == (1, True)


@pytest.mark.timeout(300)
def test_a_backup_without_a_database_fails_and_writes_no_manifest(tmp_path: Path):
    with tempfile.TemporaryDirectory(prefix="stoa-source") as folder:
        source = Installation(Path(folder), f"sqlite:///{folder}/nowhere.sqlite3")
        made = deploy_run(source, "backup", str(tmp_path / "backup"))
    assert made.returncode == 1
    assert made.stderr.count("\n") == 1
    assert "nowhere.sqlite3 cannot be copied" in made.stderr
    assert not (tmp_path / "backup" / "manifest.json").exists()


def test_a_full_disk_is_reported_with_the_file_that_did_not_fit(tmp_path: Path):
    for name in ("from", "to"):
        (tmp_path / name).mkdir()
    (tmp_path / "from" / "large").write_text("large")
    (tmp_path / "to" / "large").symlink_to("/dev/full")
    with pytest.raises(StepError, match=r"from/large cannot be copied to .*: No space left on device"):
        _copy_tree(tmp_path / "from", tmp_path / "to")


def test_the_documented_backup_covers_the_volumes_of_compose():
    services = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    excluded = {"postgres", "compiled", "prometheus", "grafana"}  # pg_dump copies the first, the others are rebuilt
    backed_up = {name for name, options in services["volumes"].items() if not options} - excluded
    page = (DEPLOY.parent / "docs" / "operator" / "backup.md").read_text()
    loops = re.findall(r"for volume in ([\w ]+); do docker run --rm -v (\w+)_\$volume:", page)
    assert [(set(names.split()), project) for names, project in loops] == [(backed_up, services["name"])] * 2


def test_a_second_copy_adds_new_and_incomplete_files(tmp_path: Path):
    source, target = tmp_path / "from", tmp_path / "to"
    (source / "deep" / "er").mkdir(parents=True)
    (source / ".download").mkdir()
    (source / ".download" / "part").write_text("half")
    (source / "deep" / "er" / "a").write_text("a")
    _copy_tree(source, target)
    (source / "b").write_text("whole")
    (target / "deep" / "er" / "a").write_text("longer than it was")
    _copy_tree(source, target)

    found = {str(path.relative_to(target)): path.read_text() for path in target.rglob("*") if path.is_file()}
    assert found == {"deep/er/a": "a", "b": "whole"}
