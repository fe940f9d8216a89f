"""A backup that is made while people write, restored elsewhere: all is there, and who was signed in still is."""

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
from steps.keeping import _copy_tree
from steps.terminal import Failed

from tests.commerce.live_server import REPOSITORY, ServedShop, make_shop, manage, shop_environment, start_server, url_of
from tests.deploy.conftest import DEPLOY
from tests.faults.test_database import add_address, own_id
from tests.inference.running_server import run_manage
from tests.postgresql import LocalPostgresql, find_binaries

COUNTS = """
import json
from django.apps import apps
print(json.dumps({model._meta.label: model._base_manager.count() for model in apps.get_models()}))
"""
TITLES = """
import json
from commerce.addresses.models import Address
print(json.dumps(list(Address.objects.values_list("title", flat=True))))
"""
# What changes while the writers write, or in the tests' own sign-ins.
GROWING = {"commerce_addresses.Address", "accounts.SignIn", "api.KeyedRequest"}


@dataclass
class Place:
    """Where an installation is: its folder and its database."""

    home: Path
    database_url: str

    @property
    def environment(self) -> dict[str, str]:
        given = {"DATABASE_URL": self.database_url, "STOA_MODELS_DIR": str(self.home / "models")}
        return shop_environment(str(self.home)) | given


@pytest.fixture(params=["sqlite", "postgresql"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Place, Place]]:
    """Where it is, and elsewhere: another folder and another database server."""
    with contextlib.ExitStack() as ending:

        def place(name: str) -> Place:
            home = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix=f"stoa-{name}")))
            if request.param == "sqlite":
                return Place(home, f"sqlite:///{home}/stoa.sqlite3")
            binaries = find_binaries()
            if binaries is None:
                reason = "PostgreSQL is not installed here. To run this: apt-get install postgresql."
                pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
            server = LocalPostgresql(binaries)
            ending.callback(server.stop)
            server.start()
            return Place(home, server.url)

        yield place("here"), place("there")


@contextlib.contextmanager
def serving(place: Place, users: list[dict[str, str]]) -> Iterator[ServedShop]:
    log = place.home / f"log-{time.monotonic_ns()}"
    process = start_server(place.environment, log)
    try:
        yield ServedShop(url_of(process, log), users, log, place.environment)
    finally:
        process.terminate()
        process.wait(60)


@contextlib.contextmanager
def writing(shop: ServedShop, headers: dict[str, str]) -> Iterator[list[str]]:
    """Two who write all the time; gives the titles of what was acknowledged."""
    known: list[str] = []
    ending, customer = threading.Event(), own_id(shop, headers)

    def write(number: int) -> None:
        for turn in itertools.takewhile(lambda _: not ending.is_set(), itertools.count()):
            answer = add_address(shop.url, headers, customer, f"written {number} {turn}")
            assert answer.status_code == 201, answer.text
            known.append(f"written {number} {turn}")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield known
    finally:
        ending.set()
        for thread in threads:
            thread.join(120)


def deploy_run(place: Place, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(DEPLOY / "run"), *arguments],
        cwd=REPOSITORY,
        env=place.environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def counted(place: Place) -> dict[str, int]:
    both = json.loads(manage(place.environment, "shell", "-v", "0", "-c", COUNTS))
    told: dict[str, int] = both
    return {name: count for name, count in told.items() if name not in GROWING}


def upload(shop: ServedShop, headers: dict[str, str]) -> str:
    """The address of a file that was uploaded, as a path."""
    files = {
        "attachment[]": ("paper.pdf", b"%PDF-1.4\n1 0 obj\n<<>>\nendobj\ntrailer\n<<>>\n%%EOF\n", "application/pdf")
    }
    answer = httpx2.post(f"{shop.url}/api/attachments", files=files, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text
    return str(answer.json()[0]["original"]).replace(shop.url, "")


@pytest.mark.timeout(600)
def test_a_backup_under_writes_is_whole_elsewhere_and_nobody_is_signed_out(places: tuple[Place, Place], tmp_path: Path):
    here, there = places
    users = make_shop(here.environment)
    done = run_manage(here.environment | {"DJANGO_SETTINGS_MODULE": "inference.config.settings.test"}, "migrate", "-v0")
    assert done.returncode == 0, done.stderr
    (here.home / "models" / "mine").mkdir(parents=True)
    (here.home / "models" / "mine" / "config.json").write_text('{"of": "mine"}')
    with serving(here, users) as shop:
        headers = shop.headers("CUSTOMER")
        path = upload(shop, headers)
        with writing(shop, headers) as known:
            while len(known) < 5:
                time.sleep(0.05)
            before = list(known)
            made = deploy_run(here, "backup", str(tmp_path / "backup"))
        assert made.returncode == 0, made.stdout + made.stderr
        assert len(known) > len(before)  # they wrote while it was made

    restored = deploy_run(there, "restore", str(tmp_path / "backup"))

    assert restored.returncode == 0, restored.stdout + restored.stderr
    titles = set(json.loads(manage(there.environment, "shell", "-v", "0", "-c", TITLES)))
    assert set(before) <= titles
    assert counted(there) == counted(here)
    assert (there.home / "models" / "mine" / "config.json").read_text() == '{"of": "mine"}'
    assert "audit.W001" not in manage(there.environment, "check", "--database", "default")
    manage(there.environment, "analytics", "reconcile")
    with serving(there, users) as shop:
        assert httpx2.get(f"{shop.url}/api/me", headers=headers, timeout=60).status_code == 200  # the same key
        assert shop.headers("STORE_OWNER")  # the same passwords
        file = httpx2.get(shop.url + path, timeout=60)
        assert (file.status_code, file.content[:8]) == (200, b"%PDF-1.4")


@pytest.mark.timeout(300)
def test_a_backup_is_private_and_a_restore_overwrites_nothing(tmp_path: Path):
    with tempfile.TemporaryDirectory(prefix="stoa-here") as folder:
        here = Place(Path(folder), f"sqlite:///{folder}/stoa.sqlite3")
        manage(here.environment, "migrate", "-v0")
        into = tmp_path / "backup"
        assert deploy_run(here, "backup", str(into)).returncode == 0
        assert into.stat().st_mode & 0o077 == 0
        assert {path.name for path in into.iterdir()} >= {"database-commerce", "secret.key", "jwt.key", "manifest.json"}
        assert [path for path in into.iterdir() if path.stat().st_mode & 0o077] == []

        again = deploy_run(here, "backup", str(into))
        assert (again.returncode, "is not empty" in again.stderr) == (1, True)
        over = deploy_run(here, "restore", str(into))
        assert (over.returncode, "Restore into an empty place" in over.stderr) == (1, True)
        (into / "database-inference").touch()
        with tempfile.TemporaryDirectory(prefix="stoa-there") as elsewhere:
            there = Place(Path(elsewhere), f"sqlite:///{elsewhere}/stoa.sqlite3")
            less = deploy_run(there, "restore", str(into))
            assert (less.returncode, "has database-inference, for which" in less.stderr) == (1, True)
            assert not (there.home / "stoa.sqlite3").exists()
        (into / "manifest.json").unlink()
        half = deploy_run(here, "restore", str(into))
        assert (half.returncode, "is no whole backup" in half.stderr) == (1, True)


@pytest.mark.timeout(300)
def test_a_backup_of_a_place_without_a_database_says_so_and_is_none(tmp_path: Path):
    with tempfile.TemporaryDirectory(prefix="stoa-here") as folder:
        here = Place(Path(folder), f"sqlite:///{folder}/nowhere.sqlite3")
        made = deploy_run(here, "backup", str(tmp_path / "backup"))
    assert made.returncode == 1
    assert made.stderr.count("\n") == 1
    assert "nowhere.sqlite3 cannot be copied" in made.stderr
    assert not (tmp_path / "backup" / "manifest.json").exists()


def test_a_disk_that_is_full_is_told_by_the_file_that_found_no_room(tmp_path: Path):
    for name in ("from", "to"):
        (tmp_path / name).mkdir()
    (tmp_path / "from" / "large").write_text("large")
    (tmp_path / "to" / "large").symlink_to("/dev/full")
    with pytest.raises(Failed, match=r"from/large cannot be copied to .*: No space left on device"):
        _copy_tree(tmp_path / "from", tmp_path / "to")


def test_the_page_backs_up_what_compose_keeps():
    services = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    made_again = {"postgres", "compiled", "prometheus", "grafana"}  # the first has a command of its own
    kept = {name for name, how in services["volumes"].items() if not how} - made_again
    page = (DEPLOY.parent / "docs" / "operator" / "backup.md").read_text()
    loops = re.findall(r"for volume in ([\w ]+); do docker run --rm -v (\w+)_\$volume:", page)
    assert [(set(names.split()), project) for names, project in loops] == [(kept, services["name"])] * 2


def test_what_is_copied_again_is_what_is_new_or_was_not_whole(tmp_path: Path):
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
