"""Rules of the layout: which module may import which, how large a package may be, and which packages are required."""

import importlib
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import grimp
import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
# Serializers are not among them: an app nests the serializers of another to return its records.
PRIVATE_MODULES = {"views", "admin", "urls", "tasks", "consumers", "apps"}
MAX_MODULES_PER_PACKAGE = 16
ENGINE = "inference.engine"
# The interface of an engine package is imported without these, so modules that need one are imported by their own name.
SLOW_IMPORTS = {"llguidance", "numpy", "safetensors", "tokenizers", "torch", "transformers"}


@cache
def import_graph() -> grimp.ImportGraph:
    return grimp.build_graph(
        "commerce", "inference", "shared", include_external_packages=True, exclude_type_checking_imports=True
    )


def imports() -> set[tuple[str, str]]:
    """Return every importing module with the module that it imports."""
    graph = import_graph()
    return {
        (importer, imported)
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
    }


def package_at(module: str, depth: int) -> str:
    """Return the first `depth` parts of a module's dotted name."""
    return ".".join(module.split(".")[:depth])


def packages() -> set[str]:
    graph = import_graph()
    internal = {module for module in graph.modules if not graph.is_module_squashed(module)}
    return {module for module in internal if graph.find_children(module)}


def requirement_list(name: str) -> set[str]:
    """Return the package names of a requirement list, without the lists that it includes."""
    lines = (REPOSITORY / "requirements" / f"{name}.txt").read_text().splitlines()
    return {line.strip() for line in lines if line and line[0] not in "#-"}


def test_the_import_contracts_hold():
    completed = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert completed.returncode == 0, completed.stdout


def test_no_app_imports_a_private_module_of_another():
    violations = [
        f"{importer} -> {imported}"
        for importer, imported in imports()
        if imported.rpartition(".")[2] in PRIVATE_MODULES
        and package_at(imported, 1) in {"commerce", "inference", "shared"}
        and package_at(importer, 2) != package_at(imported, 2)
        and not re.fullmatch(r"\w+\.config\.\w+", importer)
    ]
    assert violations == []


def test_no_two_packages_import_each_other():
    """Compare the packages of each package with one another, at every level below commerce, inference and shared."""
    importing = {
        (parent, package_at(importer, depth), package_at(imported, depth))
        for importer, imported in imports()
        for depth in range(2, len(importer.split(".")) + 1)
        if (parent := package_at(importer, depth - 1)) == package_at(imported, depth - 1)
    }
    all_packages = packages()
    assert {
        f"{first} <-> {second}"
        for parent, first, second in importing
        if first < second and {first, second} <= all_packages and (parent, second, first) in importing
    } == set()


@pytest.mark.parametrize("folder", ["commerce", "inference", "shared", "deploy", "tests"])
def test_a_package_has_no_more_than_sixteen_modules(folder: str):
    sizes = {
        str(package): len([path for path in package.glob("*.py") if path.name != "__init__.py"])
        for package in [REPOSITORY / folder, *(REPOSITORY / folder).rglob("*/")]
        if package.name != "migrations"
    }
    assert {package: size for package, size in sizes.items() if size > MAX_MODULES_PER_PACKAGE} == {}


def test_engine_packages_are_imported_by_their_interface():
    graph = import_graph()
    violations = set()
    for importer, imported in imports():
        package = package_at(imported, 3)
        if not imported.startswith(f"{ENGINE}.") or imported == package or package_at(importer, 3) == package:
            continue
        is_exported = imported.rpartition(".")[2] in importlib.import_module(package).__all__
        is_slow = importer.startswith(ENGINE) and graph.find_upstream_modules(imported) & SLOW_IMPORTS
        if not is_exported and not is_slow:
            violations.add(f"{importer} -> {imported}")
    assert violations == set()


def test_other_packages_import_the_engine_by_its_interface():
    assert {
        f"{importer} -> {imported}"
        for importer, imported in imports()
        if imported.startswith(f"{ENGINE}.") and package_at(importer, 2) != ENGINE
    } == set()


def test_the_project_requires_what_the_requirement_lists_name():
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    lists = [requirement_list(name) for name in ("base", "commerce", "server", "engine")]
    assert set(project["dependencies"]) == set().union(*lists)


@pytest.mark.parametrize("name", ["base", "bench", "commerce", "inference", "test", "dev"])
def test_every_required_package_is_pinned(name: str):
    lines = (REPOSITORY / "requirements" / "constraints.txt").read_text().splitlines()
    pinned = {line.partition("==")[0] for line in lines}
    assert {re.sub(r"\[.*\]|;.*", "", package).lower() for package in requirement_list(name)} <= pinned
