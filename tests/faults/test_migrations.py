"""Row D8: every migration is reversible, and reversing and reapplying them loses no row."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commerce.live_server import REPOSITORY, copy_shop, shop_environment
from tests.faults.conftest import StartPostgresql

# Reverses the migrations of each own app, newest first, until an app that depends on it would be removed, and applies
# them again. Prints the row counts before and after of the tables that were never dropped, and the reversed migrations.
REVERSE_AND_REAPPLY = """
import json
import django
django.setup()
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

def count_rows():
    return {model._meta.db_table: model._base_manager.count() for model in apps.get_models()}

def reversed_by(target):
    plan = MigrationExecutor(connection).migration_plan([target])
    return [f"{migration.app_label}.{migration.name}" for migration, _ in plan]

before = count_rows()
graph = MigrationExecutor(connection).loader.graph
PROJECTS = ("shared.", "commerce.", "inference.")
own_apps = [config for config in apps.get_app_configs() if config.name.startswith(PROJECTS)]
reversed_migrations = []
for config in reversed(own_apps):
    names = sorted(name for label, name in graph.nodes if label == config.label)
    oldest, steps = (), []
    for name in reversed(names[1:]):
        target = [key for key in graph.nodes[config.label, name].dependencies if key[0] == config.label][0]
        if any(".0001_" in step for step in reversed_by(target)):
            break  # an app that depends on it would be removed
        oldest, steps = target, reversed_by(target)
    if oldest:
        call_command("migrate", *oldest, verbosity=0)
        reversed_migrations += steps
kept = set(connection.introspection.table_names())
call_command("migrate", verbosity=0)
call_command("makemigrations", check=True, dry_run=True, verbosity=0)
after = count_rows()
rows = {table: (count, after[table]) for table, count in before.items() if table in kept}
print(json.dumps({"rows": rows, "reversed": reversed_migrations}))
"""

LIST_IRREVERSIBLE = """
import json
import django
django.setup()
from django.db.migrations.loader import MigrationLoader
irreversible = [
    f"{label} {name}: {operation.describe()}"
    for (label, name), migration in MigrationLoader(None).disk_migrations.items()
    if type(migration).__module__.startswith(("shared.", "commerce.", "inference."))
    for operation in migration.operations
    if not operation.reversible
]
print(json.dumps(irreversible))
"""


def run_script(script: str, environment: dict[str, str], *arguments: str) -> Any:
    command = [sys.executable, "-c", script, *arguments]
    completed = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=550)
    assert completed.returncode == 0, completed.stderr
    return json.loads(completed.stdout.splitlines()[-1])


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="stoa") as folder:
        yield Path(folder)


@pytest.mark.parametrize("project", ["commerce", "inference"])
def test_d8_every_migration_is_reversible(home: Path, project: str):
    environment = shop_environment(str(home)) | {"DJANGO_SETTINGS_MODULE": f"{project}.config.settings.test"}
    assert run_script(LIST_IRREVERSIBLE, environment) == []


@pytest.mark.timeout(900)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_d8_reversing_and_reapplying_migrations_loses_no_row(home: Path, database: str, request: pytest.FixtureRequest):
    environment = shop_environment(str(home))
    if database == "postgresql":
        start: StartPostgresql = request.getfixturevalue("start_postgresql")
        environment["DATABASE_URL"] = start().url
        copy_shop(home, environment["DATABASE_URL"])
    else:
        copy_shop(home)

    result = run_script(REVERSE_AND_REAPPLY, environment)

    changed = {table: rows for table, rows in result["rows"].items() if rows[0] != rows[1]}
    # Django adds content types and permissions for the former names of renamed models, and never removes any.
    added = [changed.pop(table, (0, 0)) for table in ("auth_permission", "django_content_type")]
    assert changed == {}
    assert all(before <= after for before, after in added)
    assert result["rows"]["commerce_catalog_product"][0] > 0
    assert len(result["reversed"]) > 5
