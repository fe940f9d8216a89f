"""Row D7: the disk of the database is full. Writes get 503 with Retry-After, and reads succeed.

No process has to be restarted once there is space again.
"""

import contextlib
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.commerce.live_server import ServedShop, copy_shop, shop_environment, start_server, url_of
from tests.faults.conftest import StartPostgresql
from tests.faults.test_database import add_address, own_id, stored

FILLER = "filler"
MAX_WRITES = 3000
REFUSALS = 5


@pytest.fixture
def small_disk(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Mount a file system of this many MiB that the user of PostgreSQL can access."""
    folder = Path(tempfile.mkdtemp(prefix="stoa-small"))
    folder.chmod(0o755)
    command = ["mount", "-t", "tmpfs", "-o", f"size={request.param}m", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True).returncode:
        folder.rmdir()
        pytest.skip("NOT RUN: mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
    folder.rmdir()


@contextmanager
def shop_with_database(url: str) -> Iterator[ServedShop]:
    """Run a shop whose own folder is on another disk than its database."""
    with tempfile.TemporaryDirectory(prefix="stoa") as home:
        environment = shop_environment(home) | {"DATABASE_URL": url}
        users, log = copy_shop(home, url if url.startswith("postgres") else ""), Path(home) / "log"
        if url.startswith("sqlite"):
            shutil.move(Path(home) / "stoa.sqlite3", url.removeprefix("sqlite:///"))
        process = start_server(environment, log)
        try:
            yield ServedShop(url_of(process, log), users, log, environment)
        finally:
            process.terminate()
            process.wait(60)


def fill(disk: Path) -> None:
    with (disk / FILLER).open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(64 * 1024))


def write_until_refused(shop: ServedShop, headers: dict[str, str], customer: int) -> tuple[list[str], Counter[int]]:
    """Write until REFUSALS writes get 503; return the acknowledged titles, and the responses by status."""
    acknowledged, statuses = [], Counter[int]()
    for number in range(MAX_WRITES):
        title = f"full {number}"
        response = add_address(shop.url, headers, customer, title)
        statuses[response.status_code] += 1
        if response.status_code == 201:
            acknowledged.append(title)
        elif response.status_code == 503:
            assert int(response.headers["Retry-After"]) > 0
            assert response.json()["code"] == "unavailable"
        if statuses[503] == REFUSALS:
            break
    return acknowledged, statuses


def check_a_full_disk(shop: ServedShop, disk: Path) -> list[str]:
    """Fill the disk, check reads and writes, free it again; return the titles of the acknowledged writes."""
    headers = shop.headers("CUSTOMER")
    customer = own_id(shop, headers)
    assert add_address(shop.url, headers, customer, "before").status_code == 201
    fill(disk)

    acknowledged, statuses = write_until_refused(shop, headers, customer)
    assert set(statuses) <= {201, 503}
    assert statuses[503] == REFUSALS
    for path in ("/api/products", "/api/addresses"):
        assert httpx2.get(shop.url + path, headers=headers, timeout=60).status_code == 200
    assert httpx2.get(f"{shop.url}/livez", timeout=60).status_code == 200

    (disk / FILLER).unlink()
    assert add_address(shop.url, headers, customer, "after").status_code == 201
    titles = {row["title"] for row in httpx2.get(f"{shop.url}/api/addresses", headers=headers, timeout=60).json()}
    assert titles >= {*acknowledged, "before", "after"}
    return ["before", *acknowledged, "after"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("small_disk", [24], indirect=True)
def test_d7_sqlite_on_a_full_disk_refuses_writes_and_recovers(small_disk: Path):
    with shop_with_database(f"sqlite:///{small_disk}/stoa.sqlite3") as shop:
        acknowledged = check_a_full_disk(shop, small_disk)
        assert stored(small_disk, "PRAGMA integrity_check") == ["ok"]
        assert set(acknowledged) <= set(stored(small_disk, "SELECT title FROM commerce_addresses_address"))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("small_disk", [320], indirect=True)
def test_d7_postgresql_on_a_full_disk_refuses_writes_and_recovers(
    small_disk: Path, start_postgresql: StartPostgresql, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "tempdir", str(small_disk))
        server = start_postgresql()
    with shop_with_database(server.url) as shop:
        check_a_full_disk(shop, small_disk)
