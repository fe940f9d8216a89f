"""The files under deploy/ as what will read them sees them."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
DEPLOY = REPOSITORY / "deploy"
LEFT_OVER_S = 5  # shared.serving.server.uvicorn_server: after the drain, for what does not heed it

_METRIC_MAKERS = {
    "Counter": "counter", "CounterMetricFamily": "counter", "_counter": "counter",
    "Gauge": "gauge", "GaugeMetricFamily": "gauge", "_gauge": "gauge",
    "Histogram": "histogram", "HistogramMetricFamily": "histogram",
}  # fmt: skip
_INTERPOLATED = re.compile(r"\$(?:\$|\{(\w+)(?::?([-?])([^}]*))?\})")


def text_files() -> list[Path]:
    """Every file under deploy/ but the programs."""
    files = [path for path in DEPLOY.rglob("*") if path.is_file() and "steps" not in path.parts]
    return [path for path in files if path.suffix != ".pyc" and path.name != "run"]


def compose(given: dict[str, str]) -> dict[str, Any]:
    """compose.yaml with these variables put in. KeyError: one that must be given is not."""

    def put_in(found: re.Match[str]) -> str:
        name, how, fallback = found.groups()
        if name is None:
            return "$"
        if how == "-":
            return given.get(name) or fallback
        if not given.get(name):
            raise KeyError(name)
        return given[name]

    return dict(yaml.safe_load(_INTERPOLATED.sub(put_in, (DEPLOY / "compose" / "compose.yaml").read_text())))


def compose_variables() -> dict[str, bool]:
    """The variables of compose.yaml, and whether each must be given."""
    found = _INTERPOLATED.finditer((DEPLOY / "compose" / "compose.yaml").read_text())
    return {one[1]: one[2] == "?" for one in found if one[1]}


def kubernetes() -> list[dict[str, Any]]:
    """Every object of both kustomizations, as it is written there."""
    objects: list[dict[str, Any]] = []
    for folder in (DEPLOY / "k8s" / "stoa", DEPLOY / "k8s" / "migrate"):
        kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
        for name in kustomization["resources"]:
            objects += yaml.safe_load_all((folder / name).read_text())
    return objects


def units() -> dict[str, dict[str, list[str]]]:
    """The settings of each systemd unit, by their names."""
    return {path.name: _settings(path.read_text()) for path in sorted((DEPLOY / "systemd").glob("stoa*.service"))}


def _settings(text: str) -> dict[str, list[str]]:
    settings: dict[str, list[str]] = {}
    for line in text.splitlines():
        if re.match(r"[A-Z]\w*=", line):
            name, _, value = line.partition("=")
            settings.setdefault(name, []).append(value)
    return settings


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    """A Dockerfile's instructions with their arguments, one after the other."""
    text = re.sub(r"^\s*#.*\n", "", dockerfile.read_text(), flags=re.M)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines if line.strip()]


def environment_of(dockerfile: Path) -> dict[str, str]:
    """What ENV says, over all stages."""
    said = [arguments for name, arguments in instructions(dockerfile) if name == "ENV"]
    return dict(pair.split("=", 1) for arguments in said for pair in arguments.split())


def drain_of(command: list[str] | str) -> float:
    """The seconds that `serve` is told to drain."""
    words = command.split() if isinstance(command, str) else command
    return float(words[words.index("--drain") + 1])


@cache
def declared_metrics() -> dict[str, str]:
    """The kind of every metric whose declaration is in the code, by its name."""
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


def told_metrics() -> set[str]:
    """Every name under which Prometheus finds a number of ours."""
    names: set[str] = set()
    for name, kind in declared_metrics().items():
        suffixes = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        names |= {name + suffix for suffix in suffixes}
    return names


def settings_of(project: str, home: Path, *names: str) -> dict[str, Any]:
    """These settings of the project, as they are where nobody says otherwise."""
    told = f"import json; from django.conf import settings; print(json.dumps([getattr(settings, n) for n in {names}]))"
    environment = {"DJANGO_SETTINGS_MODULE": f"{project}.config.settings.base", "STOA_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", told], cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(names, json.loads(done.stdout), strict=True))
