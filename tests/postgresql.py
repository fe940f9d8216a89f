"""A PostgreSQL server for a test run, with its own data folder, on a Unix socket, without fsync."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

from shared.serving.processes.child_processes import die_with_parent

START_TIMEOUT_S = 30


def find_binaries() -> Path | None:
    """Return the folder of `initdb` and `postgres`: pg_config's, else Debian's newest, else that of the PATH."""
    candidates = []
    if pg_config := shutil.which("pg_config"):
        completed = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False)
        candidates.append(Path(completed.stdout.strip()))
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    candidates += sorted(debian, key=lambda folder: int(folder.parent.name), reverse=True)
    if on_path := shutil.which("initdb"):
        candidates.append(Path(on_path).parent)
    return next((folder for folder in candidates if _is_complete(folder)), None)


def _is_complete(folder: Path) -> bool:
    return (folder / "initdb").exists() and (folder / "postgres").exists()


class LocalPostgresql:
    """A PostgreSQL server; `url` is the DATABASE_URL of its database `postgres`.

    max_connections: must cover the connection pools of all servers and workers of a test.
    outlives_crash: committed transactions survive `crash`, as in production.
    """

    def __init__(self, binaries: Path, *, max_connections: int = 300, outlives_crash: bool = False) -> None:
        self._binaries = binaries
        self._settings = [
            "fsync=off",
            "full_page_writes=off",
            "listen_addresses=",
            f"max_connections={max_connections}",
        ]
        self._settings.append(f"synchronous_commit={'on' if outlives_crash else 'off'}")
        self.folder = Path(tempfile.mkdtemp(prefix="stoa-pg-"))
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgres://postgres@/postgres?host={self.folder}"

    def start(self) -> None:
        """Create the data folder and start the server; return when it accepts connections."""
        self._run_initdb(run_as_other_user(self.folder))
        self.launch()

    def launch(self) -> None:
        """Start the server on its existing data; return when it accepts connections."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._binaries / "postgres",
                    *("-D", self.folder / "data", "-k", self.folder),
                    *(word for setting in self._settings for word in ("-c", setting)),
                ],
                stdout=subprocess.DEVNULL,
                stderr=log,
                preexec_fn=die_with_parent(),
                **run_as_other_user(self.folder),
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.05)

    def start_as_replica(self, primary: "LocalPostgresql") -> None:
        """Copy the primary's data and start the server as its streaming replica."""
        identity = run_as_other_user(self.folder)
        source = ["-h", primary.folder, "-U", "postgres", "--checkpoint=fast", "--no-sync"]
        copied = subprocess.run(
            [self._binaries / "pg_basebackup", *source, "-R", "-D", self.folder / "data"],
            capture_output=True,
            text=True,
            check=False,
            **identity,
        )
        assert copied.returncode == 0, copied.stderr
        self.launch()

    def crash(self) -> None:
        """End the server immediately, as a crash would; `launch` restarts it."""
        assert self._process
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()

    def stop(self) -> None:
        """Stop the server, disconnect its clients and remove its folder."""
        if self._process:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run_initdb(self, identity: dict[str, Any]) -> None:
        options = ["-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--no-instructions"]
        made = subprocess.run(
            [self._binaries / "initdb", *options, "-D", self.folder / "data"],
            capture_output=True,
            text=True,
            check=False,
            **identity,
        )
        assert made.returncode == 0, made.stderr

    def _answers(self) -> bool:
        try:
            psycopg.connect(host=str(self.folder), user="postgres", dbname="postgres").close()
        except psycopg.OperationalError:
            return False
        return True


def run_as_other_user(folder: Path) -> dict[str, Any]:
    """Return the options of subprocess for a program in `folder`.

    PostgreSQL refuses to run as root: root runs it as another user, who gets the folder.
    """
    environment: dict[str, Any] = {"cwd": folder, "env": {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}}
    if os.geteuid() != 0:
        return environment
    users = {entry.pw_name: entry for entry in pwd.getpwall()}
    user = users.get("postgres") or users["nobody"]
    os.chown(folder, user.pw_uid, user.pw_gid)
    return environment | {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
