"""Environment variables in the deployment files: their names, and no secrets."""

import re

import pytest

from shared.environment import KNOWN_STOA_NAMES
from tests.deploy.manifests import DEPLOY, compose_variables, image_environment, kubernetes, text_files

SECRETS = re.compile(r"^(SECRET_KEY|STOA_JWT_KEY|DATABASE_URL|REDIS_URL|\w+_PASSWORD|STOA_\w*(SECRET|API|ACCESS)_KEY)$")
EXAMPLES = ["compose/env.example", "systemd/stoa.env.example"]


def example(name: str) -> dict[str, str]:
    lines = [line for line in (DEPLOY / name).read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def test_every_named_setting_exists():
    named = {
        (str(path.relative_to(DEPLOY)), name)
        for path in text_files()
        for name in re.findall(r"\bSTOA_[A-Z0-9_]*[A-Z0-9]\b(?!\*)", path.read_text())
    }
    assert named
    assert {(path, name) for path, name in named if name not in KNOWN_STOA_NAMES} == set()


@pytest.mark.parametrize("name", EXAMPLES)
def test_no_example_contains_a_secret(name: str):
    variables = example(name)
    assert {"SECRET_KEY", "STOA_JWT_KEY"} <= variables.keys()
    assert {variable: value for variable, value in variables.items() if SECRETS.match(variable) and value} == {}


def test_the_compose_example_names_every_variable_of_compose():
    assert set(example("compose/env.example")) == set(compose_variables())


def test_no_secret_of_compose_has_a_default():
    optional = {name for name, required in compose_variables().items() if not required}
    assert optional == {"STOA_DESCRIPTIONS_API_KEY", "STOA_SHOP_PUBLIC_URL", "MODEL_HOST_OPTIONS"}


def test_no_manifest_contains_a_secret():
    objects = kubernetes()
    assert [one["metadata"]["name"] for one in objects if one["kind"] == "Secret"] == []
    for one in objects:
        assert [name for name in one.get("data", {}) if SECRETS.match(name)] == []
        assert [name for name in re.findall(r"'name': '(\w+)', 'value'", str(one)) if SECRETS.match(name)] == []


@pytest.mark.parametrize("dockerfile", sorted((DEPLOY / "docker").glob("*.Dockerfile")), ids=lambda path: path.stem)
def test_no_image_contains_a_secret(dockerfile):
    assert [name for name in image_environment(dockerfile) if SECRETS.match(name)] == []
    assert "ARG" not in [line.split()[0] for line in dockerfile.read_text().splitlines() if line]
