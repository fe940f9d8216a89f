"""Row X3: nothing below the versions that mended something, everything pinned, and the linters of security are run."""

import re
from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests.deploy.manifests import REPOSITORY

# The first version without what is known to be wrong with it.
FLOORS = {
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


def wanted(name: str) -> list[Requirement]:
    """What a list asks for, with the lists that it includes."""
    lines = (REPOSITORY / "requirements" / f"{name}.txt").read_text().splitlines()
    own = [Requirement(line) for line in lines if line and line[0] not in "#-"]
    return own + [one for line in lines if line.startswith("-r ") for one in wanted(line[3:].removesuffix(".txt"))]


def shipped() -> set[str]:
    """Every package that is installed with what the images install, by its canonical name."""
    found: set[str] = set()
    to_look_at = [one for name in LISTS for one in wanted(name)]
    while to_look_at:
        one = to_look_at.pop()
        if canonical(one.name) in found:
            continue
        found.add(canonical(one.name))
        extras = one.extras or {""}
        for text in metadata.requires(one.name) or []:
            further = Requirement(text)
            if further.marker is None or any(further.marker.evaluate({"extra": extra}) for extra in extras):
                to_look_at.append(further)
    return found


@pytest.mark.parametrize("name", FLOORS)
def test_x3_a_package_is_not_below_its_floor(name: str):
    assert pinned()[name] >= Version(FLOORS[name])


def test_x3_the_constraints_are_the_bill_of_materials():
    assert sorted(shipped() - pinned().keys()) == []
    others = {
        name: metadata.version(name)
        for name in shipped()
        if Version(metadata.version(name)).public != str(pinned()[name])
    }
    assert others == {}


def test_x3_the_check_runs_the_security_linters():
    checks = (REPOSITORY / "deploy" / "steps" / "checks.py").read_text()
    assert '"bandit", "-c", "pyproject.toml", "-q", "-ll"' in checks
    configured = (REPOSITORY / "pyproject.toml").read_text()
    assert re.search(r'^select = \[.*"S".*\]$', configured, re.M)
