"""A shop and a model server whose connections go through PgBouncer in transaction mode."""

import os
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx2
import psycopg
import pytest

from shared.serving.processes.child_processes import die_with_parent
from tests.commerce.live_server import ServedShop, copy_shop, shop_environment, start_server, url_of
from tests.faults.conftest import StartPostgresql
from tests.inference.engine.processes import running_host
from tests.inference.running_server import TALKER_CONFIG, RunningServer, add_model, running_server
from tests.postgresql import LocalPostgresql, run_as_other_user

SERVER_CONNECTIONS, CLIENTS, TIMEOUT_SECONDS = 3, 24, 30
# Session settings, prepared statements and locks of a client are lost between its transactions in this mode.
CONFIGURATION = """
[databases]
postgres = host={folder} user=postgres
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = {own}
auth_type = any
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 500
"""


def find_pgbouncer() -> str:
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        reason = "PgBouncer is not installed here. To run this: apt-get install pgbouncer."
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    return found


@contextmanager
def pgbouncer(database: LocalPostgresql) -> Iterator[str]:
    """Run PgBouncer in front of a server; yield the DATABASE_URL."""
    with tempfile.TemporaryDirectory(prefix="stoa-pgb-") as name:
        own = Path(name)
        identity = run_as_other_user(own)
        (own / "ini").write_text(CONFIGURATION.format(folder=database.folder, own=own, size=SERVER_CONNECTIONS))
        with (own / "log").open("wb") as log:
            process = subprocess.Popen(
                [find_pgbouncer(), "-q", own / "ini"], stderr=log, preexec_fn=die_with_parent(), **identity
            )
        url = f"postgres://postgres@/postgres?host={own}&port=6432"
        try:
            wait_until_answering(url, own / "log")
            yield url
        finally:
            process.terminate()
            process.wait(10)


def wait_until_answering(url: str, log: Path) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            psycopg.connect(url).close()
            return
        except psycopg.OperationalError:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)


@pytest.fixture
def shop(start_postgresql: StartPostgresql) -> Iterator[ServedShop]:
    database = start_postgresql()
    with pgbouncer(database) as url, tempfile.TemporaryDirectory(prefix="stoa") as home:
        environment = shop_environment(home) | {"DATABASE_URL": url}
        users = copy_shop(home, database.url)
        process = start_server(environment, log := Path(home) / "log")
        try:
            yield ServedShop(url_of(process, log), users, log, environment)
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture
def model_server(start_postgresql: StartPostgresql) -> Iterator[RunningServer]:
    database = start_postgresql()
    with pgbouncer(database) as url, tempfile.TemporaryDirectory(prefix="stoa") as home, running_host() as host:
        add_model(Path(home) / "models", "talker", dict(TALKER_CONFIG))
        extra = {"DATABASE_URL": database.url}
        with running_server(
            Path(home), host.run_dir, Path(home) / "models", load=["talker"], extra=extra, relay=lambda _: url
        ) as stoa:
            yield stoa


def test_many_clients_share_three_connections_in_transaction_mode(shop: ServedShop):
    owner, customer = shop.headers("SUPER_ADMIN"), shop.headers("CUSTOMER")
    with httpx2.Client(base_url=f"{shop.url}/api", timeout=60) as client:
        products = client.get("/products?limit=100").json()["data"]
        product = next(one for one in products if one["product_type"] == "simple")["id"]
        assert client.put(f"/products/{product}", json={"quantity": 1000}, headers=owner).status_code == 200

        def order(number: int) -> int:
            body = {"products": [{"product_id": product, "order_quantity": 1}]}
            headers = customer | {"Idempotency-Key": f"order-{number}"}
            return client.post("/orders", json=body, headers=headers).status_code

        def read(number: int) -> int:
            path = ("/products?search=name:lamp", "/products?orderBy=name", "/analytics", "/export-products/1")
            return client.get(path[number % len(path)], headers=owner).status_code

        with ThreadPoolExecutor(CLIENTS) as clients:
            orders = Counter(clients.map(order, range(60)))
            reads = Counter(clients.map(read, range(60)))
        assert (orders, reads) == ({201: 60}, {200: 60})
        assert client.get(f"/products/{product}").json()["quantity"] == 940


def test_many_clients_of_a_model_server_share_three_connections_in_transaction_mode(model_server: RunningServer):
    with httpx2.Client(base_url=model_server.url, headers=model_server.headers(), timeout=60) as client:

        def generate(number: int) -> int:
            body = {"model": "talker", "prompt": "speak", "max_tokens": 3}
            headers = {"Idempotency-Key": f"generation-{number}"}
            return client.post("/inference", json=body, headers=headers).status_code

        def respond_and_read(number: int) -> Counter[int]:
            body = {"model": "talker", "input": f"speak {number}", "max_output_tokens": 3, "store": True}
            created = client.post("/v1/responses", json=body)
            read = client.get(f"/v1/responses/{created.json()['id']}")
            assert read.json()["output"] == created.json()["output"]
            return Counter(answer.status_code for answer in (created, read, client.get("/usage")))

        with ThreadPoolExecutor(CLIENTS) as clients:
            generations = clients.map(generate, range(120))
            responses = clients.map(respond_and_read, range(CLIENTS))
            assert (Counter(generations), sum(responses, Counter())) == ({200: 120}, {200: 3 * CLIENTS})
        assert client.get("/usage").json()["total"]["requests"] == 120 + CLIENTS
