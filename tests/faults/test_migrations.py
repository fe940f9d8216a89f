"""Row D8: every migration has a way back, and going it and coming again loses no row."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commerce.live_server import REPOSITORY, make_shop, shop_environment
from tests.faults.conftest import StartPostgresql

# Every app of ours as far back as no other goes as a whole with it, newest first, and forth again; prints how many rows
# each table had that was there all the time, and has, and which migrations were undone.
BACK_AND_FORTH = """
import json
import django
django.setup()
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

def counted():
    return {model._meta.db_table: model._base_manager.count() for model in apps.get_models()}

def undone(target):
    plan = MigrationExecutor(connection).migration_plan([target])
    return [f"{migration.app_label}.{migration.name}" for migration, _ in plan]

before = counted()
graph = MigrationExecutor(connection).loader.graph
ours = [config for config in apps.get_app_configs() if config.name.startswith(("shared.", "commerce.", "inference."))]
walked = []
for config in reversed(ours):
    names = sorted(name for label, name in graph.nodes if label == config.label)
    for name in reversed(names[1:]):
        target = [key for key in graph.nodes[config.label, name].dependencies if key[0] == config.label][0]
        steps = undone(target)
        if any(".0001_" in step for step in steps):
            break  # an app that stands on it would go as a whole
        call_command("migrate", *target, verbosity=0)
        walked += steps
there = set(connection.introspection.table_names())
call_command("migrate", verbosity=0)
call_command("makemigrations", check=True, dry_run=True, verbosity=0)
after = counted()
rows = {table: (count, after[table]) for table, count in before.items() if table in there}
print(json.dumps({"rows": rows, "walked": walked}))
"""

IRREVERSIBLE = """
import json
import django
django.setup()
from django.db.migrations.loader import MigrationLoader
found = [
    f"{label} {name}: {operation.describe()}"
    for (label, name), migration in MigrationLoader(None).disk_migrations.items()
    if type(migration).__module__.startswith(("shared.", "commerce.", "inference."))
    for operation in migration.operations
    if not operation.reversible
]
print(json.dumps(found))
"""


def told_by(script: str, environment: dict[str, str]) -> object:
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=550
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="stoa") as folder:
        yield Path(folder)


@pytest.mark.parametrize("project", ["commerce", "inference"])
def test_d8_every_migration_has_a_way_back(home: Path, project: str):
    environment = shop_environment(str(home)) | {"DJANGO_SETTINGS_MODULE": f"{project}.config.settings.test"}
    assert told_by(IRREVERSIBLE, environment) == []


@pytest.mark.timeout(900)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_d8_back_and_forth_with_a_shops_demo_data_loses_no_row(
    home: Path, database: str, request: pytest.FixtureRequest
):
    environment = shop_environment(str(home))
    if database == "postgresql":
        start: StartPostgresql = request.getfixturevalue("start_postgresql")
        environment["DATABASE_URL"] = start().url
    make_shop(environment)

    told = told_by(BACK_AND_FORTH, environment)

    assert isinstance(told, dict)
    assert {table: rows for table, rows in told["rows"].items() if rows[0] != rows[1]} == {}
    assert told["rows"]["commerce_catalog_product"][0] > 0
    assert len(told["walked"]) > 5
