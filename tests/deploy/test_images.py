"""The Dockerfiles: what they build from, who their processes are, and that the lists they install are enough."""

import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.deploy.manifests import DEPLOY, REPOSITORY, environment_of, instructions

DOCKERFILES = sorted((DEPLOY / "docker").glob("*.Dockerfile"))
each_image = pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)

# Importing stands for installing: what is not in the image's list cannot be imported.
WITHOUT = """
import importlib, sys
absent, wanted = sys.argv[1].split(","), sys.argv[2].split(",")
sys.modules.update(dict.fromkeys(absent))
for name in wanted:
    importlib.import_module(name)
print(*sorted(name for name in absent if sys.modules[name] is not None))
"""
OF_THE_ENGINE = "torch,transformers,tokenizers,safetensors,gguf,llguidance,jinja2,numpy"
OF_THE_SERVER = "django,rest_framework,channels,celery,redis,psycopg,structlog,cryptography,uvicorn"


def listed(name: str) -> set[str]:
    """The packages of a requirements list and of those that it includes."""
    lines = (REPOSITORY / "requirements" / f"{name}.txt").read_text().splitlines()
    packages = {re.split(r"[\[=<>]", line)[0] for line in lines if line and line[0] not in "#-"}
    return packages.union(*(listed(line[3:-4]) for line in lines if line.startswith("-r ")))


@each_image
def test_what_images_are_built_from_is_pinned_to_a_version(dockerfile: Path):
    stages = {
        arguments.split()[2] for name, arguments in instructions(dockerfile) if name == "FROM" and " AS " in arguments
    }
    bases = {arguments.split()[0] for name, arguments in instructions(dockerfile) if name == "FROM"} - stages
    assert bases == {"python:3.11.14-slim-bookworm"}


@each_image
def test_its_processes_are_nobody_special_and_it_says_whether_it_is_well(dockerfile: Path):
    found = instructions(dockerfile)
    assert [arguments for name, arguments in found if name == "USER"] == ["stoa"]
    assert len([name for name, _ in found if name == "HEALTHCHECK"]) == 1
    assert [arguments.split(",")[0] for name, arguments in found if name == "ENTRYPOINT"] == ['["tini"']
    assert any("--uid 10001" in arguments for _, arguments in found)


@each_image
def test_what_it_copies_is_there_and_in_the_context(dockerfile: Path):
    allowed = [line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [arguments.split() for name, arguments in instructions(dockerfile) if name == "COPY"]
    sources = [words[0] for words in copied if not words[0].startswith("--from")]
    assert sources
    for source in sources:
        assert (REPOSITORY / source).exists()
        assert any(fnmatch(source, pattern) or source.startswith(f"{pattern}/") for pattern in allowed)


@each_image
def test_what_it_asks_of_itself_can_be_answered(dockerfile: Path):
    check = next(arguments for name, arguments in instructions(dockerfile) if name == "HEALTHCHECK")
    port = next((arguments for name, arguments in instructions(dockerfile) if name == "EXPOSE"), None)
    if port:
        assert f"http://127.0.0.1:{port}/readyz" in check
        assert f'"--port", "{port}"' in dict(instructions(dockerfile))["CMD"]
    else:
        assert "e.HostClient(pathlib.Path('/run/stoa/models')).models()" in check
        assert '"--run-dir", "/run/stoa/models"' in dict(instructions(dockerfile))["ENTRYPOINT"]


def test_server_and_host_meet_in_one_folder():
    server = environment_of(DEPLOY / "docker" / "inference.Dockerfile")
    assert (server["STOA_RUN_DIR"], server["STOA_START_HOST"]) == ("/run/stoa/models", "false")
    assert server["STOA_MODELS_DIR"] == "/data/models"


@pytest.mark.parametrize(
    ("installed", "absent", "wanted"),
    [
        (
            "server",
            OF_THE_ENGINE,
            "inference.config.asgi,inference.config.celery,inference.batches.tasks,inference.webhooks.tasks,"
            "inference.openai_batches.tasks,inference.files.tasks",
        ),
        (
            "engine",
            OF_THE_SERVER,
            "inference.engine.host,inference.engine.host.loading,inference.engine.formats.gguf_weights",
        ),
    ],
)
def test_an_image_does_without_what_it_does_not_install(installed: str, absent: str, wanted: str, tmp_path: Path):
    assert not listed(installed) & set(absent.split(","))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, absent, wanted],
        cwd=REPOSITORY,
        env={"DJANGO_SETTINGS_MODULE": "inference.config.settings.base", "STOA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr
