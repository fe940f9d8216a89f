"""Row N14: operations on both projects while the network between all their processes fails by a seeded plan.

Relays delay, cut and half-close the connections of clients, shop, model server, PostgreSQL, Redis, S3, model host and
models, and corrupt those in TLS. Afterwards the tables are compared with what the clients know: nothing acknowledged is
missing, nothing was done twice, and a minute after the last fault nothing is unfinished. A link without a fault fails
the row as well. Needs PostgreSQL and Redis.
"""

import argparse
import asyncio
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.serving.processes.local_redis import LocalRedis
from tests.commerce.live_server import REPOSITORY, ServedShop
from tests.migrated_database import copy_migrated_database
from tests.network.clients import Operations, run_under_faults
from tests.network.relay import FaultyNetwork
from tests.network.servers import RelayedModelServer, RelayedShop, relayed_model_server, relayed_shop, server_context
from tests.postgresql import LocalPostgresql, find_binaries


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--operations", type=int, default=10_000, help="of both projects together; default: 10,000")
    parser.add_argument("--seed", type=int, default=14, help="default: 14")
    parser.add_argument("--clients", type=int, default=12, help="of each project; default: 12")
    parser.add_argument("--quick", action="store_true", help="400 operations")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.operations = 400
    return chosen


@contextmanager
def running_data() -> Iterator[str]:
    """Run PostgreSQL and Redis as the environment's servers; yield the URL of Redis."""
    binaries = find_binaries()
    if binaries is None:
        sys.exit("Not run: PostgreSQL is not installed here.")
    database = LocalPostgresql(binaries)
    with tempfile.TemporaryDirectory(prefix="stoa") as folder, LocalRedis(Path(folder)) as redis:
        database.start()
        os.environ |= {"DATABASE_URL": database.url, "DJANGO_SETTINGS_MODULE": "commerce.config.settings.test"}
        os.environ["STOA_HOME"] = folder
        try:
            yield redis.url
        finally:
            database.stop()


@contextmanager
def running_shop_worker(shop: ServedShop) -> Iterator[None]:
    command = [sys.executable, "-m", "celery", "-A", "commerce.config.celery", "worker", "--concurrency", "1"]
    with shop.log.with_name("worker.log").open("wb") as log:
        worker = subprocess.Popen(command, cwd=REPOSITORY, env=shop.environment, stdout=log, stderr=log)
    try:
        yield
    finally:
        worker.terminate()
        worker.wait(60)


@contextmanager
def both_projects(network: FaultyNetwork, redis_url: str) -> Iterator[tuple[RelayedShop, RelayedModelServer]]:
    """Run a shop that uses a model server, each with its worker, and every connection of both relayed."""
    with tempfile.TemporaryDirectory(prefix="stoa") as home:
        shop_folder, models_folder = Path(home) / "shop", Path(home) / "models"
        for folder in (shop_folder, models_folder):
            folder.mkdir()
        database_url = copy_migrated_database("shop")
        with relayed_model_server(network, models_folder, server_context(models_folder), redis_url=redis_url) as models:
            settings = {
                "STOA_DESCRIPTIONS_MODEL": "talker",
                "STOA_DESCRIPTIONS_API_KEY": models.server.keys["STAFF"],
                "STOA_MAX_UNVERIFIED_ATTACHMENTS": "100000",  # one store owner uploads all files
                "STOA_MAX_UNVERIFIED_ATTACHMENT_BYTES": "1GiB",
            }
            with (
                relayed_shop(
                    network,
                    shop_folder,
                    server_context(shop_folder),
                    models_url=f"{models.server.url}/v1",
                    database_url=database_url,
                    redis_url=redis_url.replace("db=0", "db=1"),
                    extra=settings,
                ) as shop,
                running_shop_worker(shop.shop),
            ):
                yield shop, models


def print_results(network: FaultyNetwork, parts: list[Operations], seconds: float) -> None:
    print("| link | stalled | cut | half-closed | corrupted |\n|---|---|---|---|---|")
    for link, counts in network.counts().items():
        numbers = (str(counts.get(name, 0)) for name in ("STALL", "CUT", "HALF_CLOSE", "CORRUPT"))
        print(f"| {link} | {' | '.join(numbers)} |")
    for part in parts:
        print(f"{type(part).__name__}: {', '.join(f'{count} {what}' for what, count in part.outcomes.most_common())}")
    print(f"{seconds:.0f} s")


def print_errors(home: Path) -> None:
    """Print what the servers logged of errors that no fault explains."""
    for log in home.rglob("*.log"):
        for line in log.read_text(errors="replace").splitlines():
            if '"request_failed"' in line:
                print(f"{log.name}: {line}")


def main() -> None:
    chosen = parse()
    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # moto's server
    with (
        running_data() as redis_url,
        FaultyNetwork(chosen.seed) as network,
        both_projects(network, redis_url) as (shop, models),
    ):
        parts: list[Operations] = [shop.operations, models.operations]
        began = time.monotonic()
        each = chosen.operations // len(parts)
        asyncio.run(run_under_faults(network, parts, each, seed=chosen.seed, clients=chosen.clients))
        seconds = time.monotonic() - began
        wrong = [*shop.differences(), *models.differences()]
        wrong += [f"{link}: no fault at all" for link, faults in network.counts().items() if not faults]
        print_results(network, parts, seconds)
        if wrong:
            print_errors(shop.shop.log.parent.parent)
    print(f"Differences: {len(wrong)}")
    for line in wrong:
        print(line)
    if chosen.json:
        chosen.json.write_text(json.dumps({"faults": network.counts(), "differences": wrong}, indent=2))
    if wrong:
        sys.exit("Row N14 failed.")


if __name__ == "__main__":
    main()
