"""The Dockerfiles: base images, users, health checks, and the packages that they install."""

import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.deploy.manifests import DEPLOY, REPOSITORY, image_environment, instructions

DOCKERFILES = sorted((DEPLOY / "docker").glob("*.Dockerfile"))
each_image = pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.stem)

# Imports modules while the packages that an image does not install cannot be imported.
IMPORT_WITHOUT = """
import importlib, sys
absent, modules = sys.argv[1].split(","), sys.argv[2].split(",")
sys.modules.update(dict.fromkeys(absent))
for name in modules:
    importlib.import_module(name)
print(*sorted(name for name in absent if sys.modules[name] is not None))
"""
ENGINE_PACKAGES = "torch,transformers,tokenizers,safetensors,gguf,llguidance,jinja2,numpy"
SERVER_PACKAGES = "django,rest_framework,channels,celery,redis,psycopg,structlog,cryptography,uvicorn"


def listed(name: str) -> set[str]:
    """Return the packages of a requirement list and of those that it includes."""
    lines = (REPOSITORY / "requirements" / f"{name}.txt").read_text().splitlines()
    packages = {re.split(r"[\[=<>]", line)[0] for line in lines if line and line[0] not in "#-"}
    return packages.union(*(listed(line[3:-4]) for line in lines if line.startswith("-r ")))


@each_image
def test_base_images_are_pinned_to_a_version(dockerfile: Path):
    stages = {
        arguments.split()[2] for name, arguments in instructions(dockerfile) if name == "FROM" and " AS " in arguments
    }
    bases = {arguments.split()[0] for name, arguments in instructions(dockerfile) if name == "FROM"} - stages
    assert bases == {"python:3.11.14-slim-bookworm"}


@each_image
def test_an_image_runs_unprivileged_with_a_health_check(dockerfile: Path):
    found = instructions(dockerfile)
    assert [arguments for name, arguments in found if name == "USER"] == ["stoa"]
    assert len([name for name, _ in found if name == "HEALTHCHECK"]) == 1
    assert [arguments.split(",")[0] for name, arguments in found if name == "ENTRYPOINT"] == ['["tini"']
    assert any("--uid 10001" in arguments for _, arguments in found)


@each_image
def test_copied_paths_exist_and_are_in_the_build_context(dockerfile: Path):
    allowed = [line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [arguments.split() for name, arguments in instructions(dockerfile) if name == "COPY"]
    sources = [words[0] for words in copied if not words[0].startswith("--from")]
    assert sources
    for source in sources:
        assert (REPOSITORY / source).exists()
        assert any(fnmatch(source, pattern) or source.startswith(f"{pattern}/") for pattern in allowed)


@each_image
def test_the_health_check_asks_the_port_or_socket_of_the_image(dockerfile: Path):
    check = next(arguments for name, arguments in instructions(dockerfile) if name == "HEALTHCHECK")
    port = next((arguments for name, arguments in instructions(dockerfile) if name == "EXPOSE"), None)
    if port:
        assert f"http://127.0.0.1:{port}/readyz" in check
        assert f'"--port", "{port}"' in dict(instructions(dockerfile))["CMD"]
    else:
        assert "e.HostClient(pathlib.Path('/run/stoa/models')).models()" in check
        assert '"--run-dir", "/run/stoa/models"' in dict(instructions(dockerfile))["ENTRYPOINT"]


def test_server_and_host_share_a_socket_folder():
    server = image_environment(DEPLOY / "docker" / "inference.Dockerfile")
    assert (server["STOA_RUN_DIR"], server["STOA_START_HOST"]) == ("/run/stoa/models", "false")
    assert server["STOA_MODELS_DIR"] == "/data/models"


@pytest.mark.parametrize(
    ("installed", "absent", "modules"),
    [
        (
            "server",
            ENGINE_PACKAGES,
            "inference.config.asgi,inference.config.celery,inference.batches.tasks,shared.webhooks.tasks,"
            "inference.openai_batches.tasks,inference.files.tasks",
        ),
        (
            "engine",
            SERVER_PACKAGES,
            "inference.engine.host,inference.engine.host.loading,inference.engine.formats.gguf_weights",
        ),
    ],
)
def test_an_image_imports_only_installed_packages(installed: str, absent: str, modules: str, tmp_path: Path):
    assert not listed(installed) & set(absent.split(","))
    completed = subprocess.run(
        [sys.executable, "-c", IMPORT_WITHOUT, absent, modules],
        cwd=REPOSITORY,
        env={"DJANGO_SETTINGS_MODULE": "inference.config.settings.base", "STOA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (completed.returncode, completed.stdout) == (0, "\n"), completed.stderr
