"""Row X3: every package is pinned, none is below its minimum version, and the security linters run."""

import re
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.deploy.manifests import REPOSITORY

# The first version without a known vulnerability.
MIN_VERSIONS = {
    "celery": "5.6.2",
    "channels": "4.3",
    "daphne": "4.2.2",
    "django": "5.2.19",
    "djangorestframework": "3.18",
    "django-filter": "2.4",
    "pillow": "12.2",
    "pyjwt": "2.12",
    "redis": "5",
    "torch": "2.10",
    "transformers": "5.3",
}
LISTS = ("commerce", "server", "engine")


def pinned() -> dict[str, Version]:
    lines = (REPOSITORY / "requirements" / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if "==" in line]
    return {canonical(name): Version(version.split(";")[0].strip()) for name, version in pairs}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def requirements(name: str) -> list[Requirement]:
    """Return the requirements of a list and of those that it includes."""
    lines = (REPOSITORY / "requirements" / f"{name}.txt").read_text().splitlines()
    own = [Requirement(line) for line in lines if line and line[0] not in "#-"]
    return own + [
        one for line in lines if line.startswith("-r ") for one in requirements(line[3:].removesuffix(".txt"))
    ]


def installed() -> set[str]:
    """Return the canonical name of every package that the images install, with its dependencies."""
    found: set[str] = set()
    pending = [one for name in LISTS for one in requirements(name)]
    while pending:
        one = pending.pop()
        if canonical(one.name) in found:
            continue
        found.add(canonical(one.name))
        extras = one.extras or {""}
        for text in metadata.requires(one.name) or []:
            further = Requirement(text)
            if further.marker is None or any(further.marker.evaluate({"extra": extra}) for extra in extras):
                pending.append(further)
    return found


@pytest.mark.parametrize("name", MIN_VERSIONS)
def test_x3_a_package_is_at_least_at_its_minimum_version(name: str):
    assert pinned()[name] >= Version(MIN_VERSIONS[name])


def test_x3_the_constraints_list_every_installed_package():
    assert sorted(installed() - pinned().keys()) == []
    unexpected = {
        name: metadata.version(name)
        for name in installed()
        if Version(metadata.version(name)).public != str(pinned()[name])
    }
    assert unexpected == {}


def test_x3_the_check_runs_the_security_linters():
    checks = (REPOSITORY / "deploy" / "steps" / "checks.py").read_text()
    assert '"bandit", "-c", "pyproject.toml", "-q", "-ll"' in checks
    configured = (REPOSITORY / "pyproject.toml").read_text()
    assert re.search(r'^select = \[.*"S".*\]$', configured, re.M)
