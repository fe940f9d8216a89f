"""`backup` and `restore`: the databases, the files, the models and the keys of one installation, in one folder."""

import argparse
import contextlib
import json
import os
import re
import shutil
import sqlite3
import sys
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from steps.files import read_json, write_private
from steps.packages import PYTHON
from steps.terminal import ROOT, StepError, run, say, step

FORMAT_VERSION = 1
PROJECTS = ("commerce", "inference")
KEYS = ("secret.key", "jwt.key")
MANIFEST = "manifest.json"

# Prints where a project's settings put its data, and how PostgreSQL's own programs reach its database.
PRINT_STORAGE = """
import json, django
django.setup()
from django.conf import settings
from django.db import connection
storage = {"vendor": connection.vendor, "name": str(connection.settings_dict["NAME"]), "version": settings.VERSION}
if connection.vendor == "postgresql":
    names = ("dbname", "user", "password", "host", "port", "sslmode", "sslrootcert", "sslcert", "sslkey", "service")
    parameters = connection.get_connection_params()
    storage["connection"] = {name: str(parameters[name]) for name in names if parameters.get(name)}
on_disk = "s3" not in settings.STORAGES["default"]["BACKEND"].lower()
storage["files"] = str(settings.MEDIA_ROOT) if on_disk else None
storage["models"] = [str(folder) for folder in getattr(settings, "MODELS_DIRS", [])]
print(json.dumps(storage))
"""


@dataclass(frozen=True)
class Installation:
    """An installation's folder, and the storage of each project as its settings say."""

    home: Path
    storage: dict[str, dict[str, Any]]

    @classmethod
    def from_settings(cls) -> "Installation":
        home = Path(os.environ.get("STOA_HOME", ROOT)).resolve()
        return cls(home, {project: _read_storage(project) for project in PROJECTS})

    def databases(self) -> list[tuple[str, dict[str, Any]]]:
        """Return each database once, with the name of its copy: the projects often share one."""
        databases: dict[str, tuple[str, dict[str, Any]]] = {}
        for project, storage in self.storage.items():
            identity = json.dumps([storage["vendor"], storage["name"], storage.get("connection")])
            databases.setdefault(identity, (f"database-{project}", storage))
        return list(databases.values())

    def folders(self) -> Iterator[tuple[str, Path]]:
        """Yield each folder of files and models, with the name of its copy."""
        for project, storage in self.storage.items():
            if storage["files"]:
                yield f"files-{project}", Path(storage["files"])
            for number, folder in enumerate(storage["models"]):
                yield f"models-{number}", Path(folder)


def backup(arguments: argparse.Namespace) -> None:
    """Copy everything while the servers run.

    The files are copied before the database and again after it, so that no row of the copy lacks its file.
    """
    target = arguments.folder.resolve()
    if target.exists() and any(target.iterdir()):
        raise StepError(f"{target} is not empty. Name a new folder for each backup.")
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    target.chmod(0o700)
    installation = Installation.from_settings()
    say(f"Backing up into {target}:")
    _copy_folders(installation, target)
    for name, database in installation.databases():
        with step(f"The database {_describe(database)}"):
            _dump(database, target / name)
    _copy_folders(installation, target)
    keys = [*(installation.home / "var" / name for name in KEYS), installation.home / ".env"]
    for path in filter(Path.is_file, keys):
        _copy_private(path, target / path.name)
    in_s3 = [project for project, storage in installation.storage.items() if not storage["files"]]
    manifest = {
        "form": FORMAT_VERSION,
        "made_at": datetime.now(UTC).isoformat(),
        "files_in_s3": in_s3,
        "version": installation.storage["commerce"]["version"],
    }
    write_private(target / MANIFEST, manifest)  # last: a backup without it is incomplete
    for project in in_s3:
        say(f"  The files of {project} are in S3 and not in this backup. Use the bucket's versioning to keep them.")
    say("Done. The backup contains password hashes, keys and personal data: protect it like the installation itself.")


def restore(arguments: argparse.Namespace) -> None:
    """Restore a backup into the empty installation of the settings, and migrate it to this version."""
    source = arguments.folder.resolve()
    manifest = read_json(source / MANIFEST)
    if manifest.get("form") != FORMAT_VERSION:
        raise StepError(
            f"{source} is not a complete backup of format {FORMAT_VERSION}: its {MANIFEST} is missing or has another "
            "format."
        )
    home = Path(os.environ.get("STOA_HOME", ROOT)).resolve()
    say(f"Restoring {source}, made at {manifest['made_at']}, into {home}:")
    _restore_keys(source, home)
    installation = Installation.from_settings()  # after the keys: it makes those that are missing
    _require_matching_settings(source, installation)
    for name, database in installation.databases():
        with step(f"The database {_describe(database)}"):
            _load(database, source / name)
    for name, folder in installation.folders():
        if (source / name).is_dir():
            with step(f"{folder}"):
                if folder.exists() and any(folder.iterdir()):
                    raise StepError(f"{folder} is not empty. Restore into an empty folder.")
                _copy_tree(source / name, folder)
    for project in PROJECTS:
        with step(f"Migrating the database of {project}"):
            run([_python(), f"manage_{project}.py", "migrate", "--noinput", "-v0"], env=_env(project), what="Migrating")
    say("Done. Start the servers; `manage_commerce.py collect_attachments --scan` compares files and rows.")


def _read_storage(project: str) -> dict[str, Any]:
    output = run([_python(), "-c", PRINT_STORAGE], env=_env(project), what=f"Reading the settings of {project}")
    storage: dict[str, Any] = json.loads(output.splitlines()[-1])
    return storage


def _env(project: str) -> dict[str, str]:
    """Return the environment of a project's processes, with the settings module that this environment names."""
    kind = os.environ.get("DJANGO_SETTINGS_MODULE", "base").rpartition(".")[2]
    return os.environ | {"DJANGO_SETTINGS_MODULE": f"{project}.config.settings.{kind}", "STOA_LOG_LEVEL": "WARNING"}


def _python() -> str:
    """Return the Python of `.venv`; a container has none, and this process's own has the packages."""
    return str(PYTHON) if PYTHON.exists() else sys.executable


def _describe(database: dict[str, Any]) -> str:
    return f"{database['name']} ({database['vendor']})"


def _copy_folders(installation: Installation, target: Path) -> None:
    for name, folder in installation.folders():
        if folder.is_dir():
            with step(f"{folder}"):
                _copy_tree(folder, target / name)


def _copy_tree(source: Path, target: Path) -> None:
    """Copy the files that the target lacks or has in another size.

    A file never changes under its name; one that is deleted meanwhile is skipped. Hidden folders hold unfinished
    downloads and are left out.
    """
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder, subfolders, files in os.walk(source):
        subfolders[:] = [name for name in subfolders if not name.startswith(".")]
        into = target / Path(folder).relative_to(source)
        into.mkdir(mode=0o700, exist_ok=True)
        for name in files:
            original, copy = Path(folder) / name, into / name
            try:
                if not copy.exists() or copy.stat().st_size != original.stat().st_size:
                    shutil.copy2(original, copy)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise StepError(f"{original} cannot be copied to {copy}: {error.strerror}.") from error


def _copy_private(source: Path, target: Path) -> None:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(source.read_bytes())


def _restore_keys(source: Path, home: Path) -> None:
    (home / "var").mkdir(mode=0o700, parents=True, exist_ok=True)
    targets = {name: home / "var" / name for name in KEYS} | {".env": home / ".env"}
    for name, target in targets.items():
        if not (source / name).is_file():
            continue
        if target.exists() and target.read_bytes() != (source / name).read_bytes():
            raise StepError(
                f"{target} exists and differs from the backup's. Restore into an empty folder, with STOA_HOME=..."
            )
        if not target.exists():
            _copy_private(source / name, target)


def _require_matching_settings(source: Path, installation: Installation) -> None:
    """Raise StepError if the backup has data that the settings have no target for: it would be silently lost."""
    expected = {MANIFEST, ".env", *KEYS, *(name for name, _ in [*installation.databases(), *installation.folders()])}
    expected |= {name + suffix for name in expected for suffix in ("-wal", "-shm")}  # of an interrupted restore
    unexpected = sorted(path.name for path in source.iterdir() if path.name not in expected)
    if unexpected:
        raise StepError(
            f"These settings have no target for {', '.join(unexpected)} in {source}. Set DATABASE_URL (one database or "
            "one for each project), STOA_MODELS_DIR and STOA_STORAGE as they were when the backup was made."
        )


def _dump(database: dict[str, Any], target: Path) -> None:
    if database["vendor"] == "postgresql":
        _run_postgresql("pg_dump", database, "--format=custom", f"--file={target}")
        target.chmod(0o600)
        return
    _copy_sqlite(Path(database["name"]), target)


def _copy_sqlite(source: Path, target: Path) -> None:
    """Copy a consistent snapshot of the database, in one step that blocks no writer."""
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        integrity = _copy_pages(source, target)
    except sqlite3.Error as error:
        raise StepError(
            f"{source} cannot be copied to {target}: {error}. Are DATABASE_URL and STOA_HOME those of the servers?"
        ) from error
    if integrity != "ok":
        raise StepError(
            f"The copy of {source} is damaged: {integrity}. "
            f"Check the original: sqlite3 {source} 'PRAGMA integrity_check'"
        )


def _copy_pages(source: Path, target: Path) -> str:
    """Copy the database and return the result of the copy's integrity check: "ok", or its first error."""
    name = urllib.parse.quote(str(source))
    with (
        contextlib.closing(sqlite3.connect(f"file:{name}?mode=rw", uri=True, timeout=60)) as original,
        contextlib.closing(sqlite3.connect(target)) as copy,
    ):
        original.backup(copy)
        copy.create_function("regexp", 2, lambda pattern, text: bool(re.search(pattern, text)))  # check constraints
        return str(copy.execute("PRAGMA integrity_check").fetchone()[0])


def _load(database: dict[str, Any], source: Path) -> None:
    if not source.is_file():
        raise StepError(
            f"The backup has no {source.name}. Set DATABASE_URL as it was when the backup was made: one database, or "
            "one for each project."
        )
    with source.open("rb") as file:
        is_dump = file.read(5) == b"PGDMP"
    if is_dump != (database["vendor"] == "postgresql"):
        raise StepError(
            f"{source.name} is a copy of {'PostgreSQL' if is_dump else 'SQLite'}, and DATABASE_URL names "
            f"{_describe(database)}. Set DATABASE_URL to the same kind of database."
        )
    if is_dump:
        options = ("--exit-on-error", "--single-transaction", "--no-owner", "--no-privileges")
        _run_postgresql("pg_restore", database, *options, str(source))
        return
    target = Path(database["name"])
    if target.exists() and target.stat().st_size:
        raise StepError(f"{target} exists. Restore into an empty folder.")
    target.unlink(missing_ok=True)
    _copy_sqlite(source, target)


def _run_postgresql(program: str, database: dict[str, Any], *options: str) -> None:
    """Run one of PostgreSQL's own programs. The password is not in the command, which other users could list."""
    binary = shutil.which(program) or next(
        map(str, sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))[::-1]), ""
    )
    if not binary:
        raise StepError(f"{program} is not installed. On Debian: apt-get install postgresql-client")
    parameters = dict(database["connection"])
    env = os.environ | ({"PGPASSWORD": parameters.pop("password")} if "password" in parameters else {})
    connection = " ".join(f"{name}='{_quote(value)}'" for name, value in parameters.items())
    run([binary, "--dbname", connection, *options], env=env, what=program)


def _quote(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")
