"""Two versions of the code, and the processes of each on the same data."""

import contextlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

REPOSITORY = Path(__file__).resolve().parents[2]
START_SECONDS = 120
DRAIN_SECONDS = 10
REQUIREMENTS = ("base", "commerce", "server")
# Becomes a model host with the fake models of this version's tests.
HOST = """
import os
import sys
import msgspec
from tests.inference.engine import processes
policy = msgspec.json.encode(processes.POLICY).decode()
os.execv(sys.executable, [sys.executable, "-c", processes._PROGRAM, sys.argv[1], policy])
"""


@dataclass(frozen=True)
class Version:
    """A version of the code in a folder, with its settings and the packages that this Python lacks for it."""

    name: str
    root: Path
    settings: dict[str, str]
    packages: Path | None = None

    def run(self, environment: dict[str, str], *arguments: str, timeout: float = 600) -> str:
        """Run Python with these arguments to its end, and return its stdout."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env=self._environment(environment),
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert done.returncode == 0, f"{self.name}: {' '.join(arguments)[:200]}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, environment: dict[str, str], log: Path, *arguments: str) -> subprocess.Popen[bytes]:
        """Start Python with these arguments, and its output in `log`."""
        with log.open("wb") as output:
            return subprocess.Popen(
                [sys.executable, *arguments],
                cwd=self.root,
                env=self._environment(environment),
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def _environment(self, environment: dict[str, str]) -> dict[str, str]:
        paths = [str(path) for path in (self.root, self.packages) if path]
        return environment | self.settings | {"PYTHONPATH": os.pathsep.join(paths)}


def present_version(settings: dict[str, str]) -> Version:
    return Version("this version", REPOSITORY, settings)  # its number is that of the last release until the next


def checked_out_version(commit: str, folder: Path, settings: dict[str, str]) -> Version:
    """Return the version of a commit, whose files and missing packages are put into the folder.

    Raise LookupError if this clone does not have the commit.
    """
    known = subprocess.run(["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=REPOSITORY, capture_output=True)
    if known.returncode:
        raise LookupError(f"This clone has no commit {commit}: it is shallow, or no clone. git fetch --unshallow")
    root, packages = folder / "code", folder / "packages"
    root.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", commit], cwd=REPOSITORY, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", root], input=archive.stdout, check=True)
    requirements = root / "requirements"
    lines = [line for name in REQUIREMENTS for line in (requirements / f"{name}.txt").read_text().splitlines()]
    missing = [line for line in lines if re.match(r"\w", line) and not _is_installed(line)]
    if missing:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(packages)]
        subprocess.run([*command, "-c", requirements / "constraints.txt", *missing], check=True)
    return Version(_name_of(root), root, settings, packages)


def _name_of(root: Path) -> str:
    project: dict[str, Any] = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def _is_installed(requirement: str) -> bool:
    try:
        importlib.metadata.version(re.split(r"[\[<>=!;~ ]", requirement)[0])
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@dataclass
class Machine:
    """A machine with processes of one version: web servers and workers of both projects, and a model host.

    It starts once.

    environment: settings of both projects. folder: for sockets and logs; its path is short. hung: processes that had to
    be killed.
    """

    version: Version
    environment: dict[str, str]
    folder: Path
    shop_url: str = ""
    models_url: str = ""
    hung: list[str] = field(default_factory=list)
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> None:
        """Start the processes; return when both web servers are ready."""
        self.folder.mkdir(parents=True, exist_ok=True)
        run_dir = self.folder / "run"
        run_dir.mkdir(exist_ok=True)
        own = self.environment | {"STOA_RUN_DIR": str(run_dir)}
        inference = own | {"DJANGO_SETTINGS_MODULE": "inference.config.settings.test"}
        self._start(own | {"TESTED_RUN_DIR": str(run_dir)}, "host", "-c", HOST, str(run_dir))
        serve = ("serve", "--port", "0", "--drain", str(DRAIN_SECONDS))
        self.models_url = self._url_of(self._start(inference, "models", "manage_inference.py", *serve), "models")
        shop = own | {
            "DJANGO_SETTINGS_MODULE": "commerce.config.settings.test",
            "STOA_DESCRIPTIONS_BASE_URL": f"{self.models_url}/v1",
        }
        self.shop_url = self._url_of(self._start(shop, "shop", "manage_commerce.py", *serve), "shop")
        celery = ("-m", "celery", "-A")
        self._start(inference, "models-worker", *celery, "inference.config.celery", "worker")
        self._start(shop, "shop-worker", *celery, "commerce.config.celery", "worker", "--concurrency", "1")
        for url in (self.models_url, self.shop_url):
            self._wait_until_ready(url)

    def stop(self) -> None:
        """End the processes as a service manager does: the model host last, when the others have drained."""
        host, others = self._processes[:1], self._processes[1:]
        self._processes = []
        for group in (others, host):
            for process in group:
                process.terminate()
            for process in group:
                try:
                    process.wait(DRAIN_SECONDS + 60)
                except subprocess.TimeoutExpired:
                    process.kill()
                    self.hung.append(f"{self.version.name}: {process.args} did not end")

    def errors(self) -> list[str]:
        """Return the log lines of failures."""
        logs = sorted(self.folder.glob("*.log"))
        return [
            f"{self.version.name} {log.stem}: {line[:3000]}"
            for log in logs
            for line in log.read_text(errors="replace").splitlines()
            if '"level": "error"' in line or '"level":"error"' in line or "Traceback" in line
        ]

    def _start(self, environment: dict[str, str], name: str, *arguments: str) -> subprocess.Popen[bytes]:
        process = self.version.start(environment, self.folder / f"{name}.log", *arguments)
        self._processes.append(process)
        return process

    def _url_of(self, process: subprocess.Popen[bytes], name: str) -> str:
        log, deadline = self.folder / f"{name}.log", time.monotonic() + START_SECONDS
        while True:
            for line in log.read_text().splitlines():
                if line.startswith("{") and (urls := json.loads(line).get("urls")):
                    return str(urls[0])
            assert process.poll() is None, f"{name} of {self.version.name} ended: {log.read_text()[-6000:]}"
            assert time.monotonic() < deadline, log.read_text()[-6000:]
            time.sleep(0.1)

    def _wait_until_ready(self, url: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            with contextlib.suppress(httpx2.TransportError):
                response = httpx2.get(f"{url}/readyz", timeout=5)
                if response.status_code == 200:
                    return
            assert time.monotonic() < deadline, f"{url} of {self.version.name} is not ready: {response.text}"
            time.sleep(0.2)
