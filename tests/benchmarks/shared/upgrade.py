"""Row N15: an upgrade from the previous release under load, and a backup under that load, restored and reconciled.

Clients read, order, sign in, decide, upload, generate and submit batches. Meanwhile the tables are migrated, processes
of the new version join those of the previous one, replace them, and are joined by them again, as for a rollback. No
response is an error. Afterwards the tables, and those of the restored backup, hold what clients know. The previous
version comes from git. Needs Redis, and PostgreSQL for that database.
"""

import argparse
import asyncio
import copy
import itertools
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2

from shared.serving.processes.local_redis import LocalRedis
from tests.commerce.live_server import MAKE_KEY, MAKE_SHOP
from tests.inference.running_server import TALKER_CONFIG, add_model
from tests.network.models import Rows
from tests.network.servers import ROLES, query
from tests.network.shop import PRODUCTS, SET_STOCK
from tests.postgresql import LocalPostgresql, find_binaries
from tests.running_stoa import COMPILED_DIR
from tests.upgrade.clients import BalancedModels, BalancedShop
from tests.upgrade.versions import Machine, Version, checked_out_version, present_version

RELEASE_COMMIT = "c20aa8eb"  # of 1.0.0
UNKNOWN_TASK = "Received unregistered task"
SETTINGS = {"STOA_LOGINS_PER_MINUTE": "100000"}  # of both versions
SHOP_CLIENTS, MODEL_CLIENTS = 6, 4
BALANCER_SECONDS = 2.0  # until no client is at a server that has left the balancer
# Migrates as ever, with a pause after each migration, so that clients meet every state of the tables.
MIGRATE = """
import sys
import time
import django
django.setup()
from django.core.management import call_command, get_commands, load_command_class
pause, command = float(sys.argv[1]), load_command_class(get_commands()["migrate"], "migrate")
tell = type(command).migration_progress_callback
def tell_and_pause(self, action, *arguments, **options):
    tell(self, action, *arguments, **options)
    if action == "apply_success":
        time.sleep(pause)
type(command).migration_progress_callback = tell_and_pause
call_command(command, interactive=False)
"""
OWN_PRODUCT = """
    SELECT min(product.id) FROM commerce_catalog_product product
    JOIN commerce_shops_shop shop ON shop.id = product.shop_id JOIN accounts_user owner ON owner.id = shop.owner_id
    WHERE owner.email = '{email}'
"""
FIND_DIFFERENCES = """
import json
from django.utils import timezone
from commerce.analytics.aggregation.reconcile import find_differences
from commerce.analytics.services import run_maintenance
run_maintenance(now=timezone.now())
print(json.dumps([str(difference) for difference in find_differences()]))
"""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--database", choices=["sqlite", "postgresql"], help="default: both, one after the other")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each phase; default: 30")
    parser.add_argument("--previous", default=RELEASE_COMMIT, metavar="COMMIT", help=f"default: {RELEASE_COMMIT}")
    parser.add_argument("--quick", action="store_true", help="5 seconds a phase")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.seconds = 5.0
    return chosen


class Installation:
    """An installation's home and database. `environment` has the settings of all its processes."""

    def __init__(self, home: Path, database_url: str, redis_url: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("STOA_")}
        self.home = home
        self.environment = kept | {
            "DJANGO_SETTINGS_MODULE": "commerce.config.settings.test",
            "DATABASE_URL": database_url or f"sqlite:///{home}/stoa.sqlite3",
            "REDIS_URL": redis_url,
            "STOA_HOME": str(home),
            "STOA_COMPILED_DIR": str(COMPILED_DIR),
            "STOA_MODELS_DIR": str(home / "models"),
            "STOA_LOAD": "talker",
            "STOA_DESCRIPTIONS_MODEL": "talker",
        }

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return query(self.environment["DATABASE_URL"], statement)

    def stored_files(self) -> list[str]:
        return [str(path) for path in (self.home / "var" / "media").rglob("*")]

    def differences(self, version: Version, shop: BalancedShop, models: BalancedModels) -> list[str]:
        """Return what differs between the tables, the files, the analytics and what the clients know."""
        models.faults_ended_at = time.monotonic()
        rows: Rows = self.rows
        stuck = models.wait_until_finished(rows)
        tables = [*shop.differences(rows, self.stored_files), *models.differences(rows)]
        manage = ("manage_commerce.py", "shell", "-v", "0", "-c", FIND_DIFFERENCES)
        return [*stuck, *tables, *json.loads(version.run(self.environment, *manage).splitlines()[-1])]


class Upgrade:
    """An upgrade of one installation, and the restoration of its backup into another."""

    def __init__(self, previous: Version, new: Version, installations: list[Installation], folder: Path) -> None:
        self.previous, self.new, self.folder = previous, new, folder
        self.installation, self.restored = installations
        self.machines: list[Machine] = []
        self.differences: dict[str, list[str]] = {}

    def run(self, seconds: float) -> None:
        try:
            self._set_up()
            asyncio.run(self._upgrade(seconds))
            self._compare()
        finally:
            for machine in self.machines:
                machine.stop()

    def _set_up(self) -> None:
        environment = self.installation.environment
        add_model(self.installation.home / "models", "talker", dict(TALKER_CONFIG))
        made = self.previous.run(environment, "manage_commerce.py", "shell", "-v", "0", "-c", MAKE_SHOP)
        inference = environment | {"DJANGO_SETTINGS_MODULE": "inference.config.settings.test"}
        self.previous.run(inference, "manage_inference.py", "migrate", "-v0")
        users = {user["role"]: user for user in json.loads(made)["users"]}
        self.keys = {role: self._make_key(users[role]["email"]) for role in ("SUPER_ADMIN", "STAFF")}
        for installation in (self.installation, self.restored):
            installation.environment["STOA_DESCRIPTIONS_API_KEY"] = self.keys["STAFF"]
        self.installation.rows(SET_STOCK)
        first = self._start_machine(self.previous, self.installation)
        credentials = {role: {name: users[role][name] for name in ("email", "password")} for role in ROLES}
        headers = {}
        for role in ROLES:
            answer = httpx2.post(f"{first.shop_url}/api/token", json=credentials[role], timeout=30).raise_for_status()
            headers[role] = {"Authorization": f"Bearer {answer.json()['token']}"}
        products = [row[0] for row in self.installation.rows(PRODUCTS)]
        ((own_product,),) = self.installation.rows(OWN_PRODUCT.format(email=credentials["STORE_OWNER"]["email"]))
        self.shop = BalancedShop(first.shop_url, headers, products, own_product, credentials["CUSTOMER"])
        self.models = BalancedModels(first.models_url, self.keys["SUPER_ADMIN"], "talker", "talker")
        self.models.learn_generations()
        self._balance(first)

    def _make_key(self, email: str) -> str:
        script = MAKE_KEY.format(email=email)
        return self.previous.run(
            self.installation.environment, "manage_commerce.py", "shell", "-v", "0", "-c", script
        ).strip()

    def _start_machine(self, version: Version, installation: Installation) -> Machine:
        machine = Machine(version, installation.environment, self.folder / f"machine{len(self.machines)}")
        self.machines.append(machine)
        machine.start()
        return machine

    def _balance(self, *machines: Machine) -> None:
        self.shop.urls = {machine.shop_url: machine.version.name for machine in machines}
        self.models.urls = {machine.models_url: machine.version.name for machine in machines}

    async def _upgrade(self, seconds: float) -> None:
        is_over = False
        numbers = itertools.count()

        def until_over() -> Iterator[int]:
            return itertools.takewhile(lambda _: not is_over, numbers)

        clients = [
            asyncio.create_task(self.shop.run(until_over(), seed=15, clients=SHOP_CLIENTS)),
            asyncio.create_task(self.models.run(until_over(), seed=15, clients=MODEL_CLIENTS)),
        ]
        try:
            await self._change_versions(seconds)
        finally:
            is_over = True
            await asyncio.gather(*clients)

    async def _change_versions(self, seconds: float) -> None:
        old, new = self.previous.name, self.new.name
        first = self.machines[0]
        await self._phase(f"{old} alone", seconds)
        await self._phase("migration", 0, self._migrate, seconds / 30)
        await self._phase(f"{old} on the new tables", seconds)
        second = await asyncio.to_thread(self._start_machine, self.new, self.installation)
        self._balance(first, second)
        await self._phase(f"{old} and {new}, backup", seconds, self._back_up)
        self._balance(second)
        await asyncio.sleep(BALANCER_SECONDS)
        await self._phase(f"{new} alone", seconds, first.stop)
        third = await asyncio.to_thread(self._start_machine, self.previous, self.installation)
        self._balance(second, third)
        await self._phase(f"{old} started again", seconds)

    async def _phase(
        self, name: str, seconds: float, action: Callable[..., None] | None = None, *arguments: Any
    ) -> None:
        """Let clients go on for this time, and for as long as an action takes."""
        self.shop.phase = self.models.phase = name
        began = time.monotonic()
        if action is not None:
            await asyncio.to_thread(action, *arguments)
        await asyncio.sleep(max(0.0, seconds - (time.monotonic() - began)))
        counts = [part.counts[name] for part in (self.shop, self.models)]
        errors = [part.error_counts[name] for part in (self.shop, self.models)]
        print(f"| {name} | {time.monotonic() - began:.0f} s | {sum(counts)} | {sum(errors)} |", flush=True)

    def _migrate(self, pause: float) -> None:
        for project in ("commerce", "inference"):
            settings = {"DJANGO_SETTINGS_MODULE": f"{project}.config.settings.test"}
            self.new.run(self.installation.environment | settings, "-c", MIGRATE, str(pause))

    def _back_up(self) -> None:
        self.known = copy.deepcopy(self.shop.known)
        self.known_batches = dict(self.models.batches)
        self.new.run(self.installation.environment, "deploy/run", "backup", str(self.folder / "backup"))

    def _compare(self) -> None:
        self.differences["the upgraded installation"] = self.installation.differences(self.new, self.shop, self.models)
        self.new.run(self.restored.environment, "deploy/run", "restore", str(self.folder / "backup"))
        self.shop.known, self.models.batches = self.known, self.known_batches
        self._start_machine(self.new, self.restored)
        self.differences["the restored backup"] = self.restored.differences(self.new, self.shop, self.models)

    def accepted(self) -> str:
        known, batches = self.known, len(self.known_batches)
        return (
            f"{len(known.orders)} orders, {len(known.files)} files, {len(known.decisions)} decisions, {batches} batches"
        )


@contextmanager
def installations(database: str, redis_url: str) -> Iterator[list[Installation]]:
    """Yield two empty installations, the second of which is for the restoration."""
    with ExitStack() as stack:
        made = []
        for number in range(2):
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stoa")))
            url = ""
            if database == "postgresql":
                binaries = find_binaries()
                if binaries is None:
                    sys.exit("Not run: PostgreSQL is not installed here.")
                server = LocalPostgresql(binaries)
                stack.callback(server.stop)
                server.start()
                url = server.url
            made.append(Installation(home, url, redis_url.replace("db=0", f"db={number}")))
        yield made


def upgrade(database: str, previous: Version, seconds: float) -> dict[str, Any]:
    """Upgrade an installation with this database, print the table, and return what went wrong.

    Failures in the logs of servers and workers are shown: they fail the row only where a client or a table shows them.
    """
    print(f"\n{database}:\n\n| phase | time | successes | errors |\n|---|---|---|---|", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="stoa") as folder,
        LocalRedis(Path(folder)) as redis,
        installations(database, redis.url) as both,
    ):
        run = Upgrade(previous, present_version(SETTINGS), both, Path(folder))
        try:
            run.run(seconds)
        finally:  # a worker does not know the periodic tasks of the other version, whose workers have them
            logs = [line for machine in run.machines for line in machine.errors() if UNKNOWN_TASK not in line]
            print(*logs[:40], sep="\n")
    print(f"\nIn the backup: {run.accepted()}.")
    for name, found in run.differences.items():
        print(f"Differences of {name}: {len(found)}", *found[:40], sep="\n  ")
    errors = [*run.shop.errors, *run.models.errors, *run.shop.violations, *run.models.violations]
    errors += [line for machine in run.machines for line in machine.hung]
    print(f"Errors: {len(errors)}", *examples(errors), sep="\n  ")
    return {"errors": errors, "differences": run.differences, "logs": logs}


def examples(errors: list[str]) -> list[str]:
    """Return one error of each kind: those that differ in numbers only are one."""
    return list({re.sub(r"\d+", "", error)[:100]: error for error in errors}.values())


def main() -> None:
    chosen = parse()
    with tempfile.TemporaryDirectory(prefix="stoa-previous-") as folder:
        try:
            previous = checked_out_version(chosen.previous, Path(folder), SETTINGS)
        except LookupError as error:
            sys.exit(f"Not run: {error}")
        databases = [chosen.database] if chosen.database else ["postgresql", "sqlite"]
        results = {database: upgrade(database, previous, chosen.seconds) for database in databases}
    if chosen.json:
        chosen.json.write_text(json.dumps(results, indent=2))
    if any(result["errors"] or any(result["differences"].values()) for result in results.values()):
        sys.exit("Row N15 failed.")


if __name__ == "__main__":
    main()
