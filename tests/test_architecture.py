"""The rules of the house: who may import whom, and that the lists of packages agree with each other."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import grimp
import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
# Serializers are not among them: a nested serializer of another app is how its records are shown.
PRIVATE_ROOMS = {"views", "admin", "urls", "tasks", "consumers", "apps"}


def named_packages(list_name: str) -> set[str]:
    """The package names of one requirements list, without what it includes."""
    lines = (CHECKOUT / "requirements" / f"{list_name}.txt").read_text().splitlines()
    return {line.strip() for line in lines if line and line[0] not in "#-"}


def app_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def test_the_import_contracts_hold():
    checked = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert checked.returncode == 0, checked.stdout


def test_no_app_imports_a_private_room_of_another():
    graph = grimp.build_graph("commerce", "inference", "shared")
    trespasses = [
        f"{importer} -> {imported}"
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
        if imported.rpartition(".")[2] in PRIVATE_ROOMS
        and app_of(importer) != app_of(imported)
        and not re.fullmatch(r"\w+\.config\.\w+", importer)
    ]
    assert trespasses == []


def test_what_the_package_needs_is_what_the_requirement_lists_name():
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    named = [named_packages(name) for name in ("base", "commerce", "server", "engine")]
    assert set(project["dependencies"]) == set().union(*named)


@pytest.mark.parametrize("list_name", ["base", "bench", "commerce", "inference", "test", "dev"])
def test_every_named_package_is_pinned(list_name: str):
    pinned = {
        line.partition("==")[0] for line in (CHECKOUT / "requirements" / "constraints.txt").read_text().splitlines()
    }
    assert {re.sub(r"\[.*\]", "", name).lower() for name in named_packages(list_name)} <= pinned
