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
from steps.terminal import ROOT, Failed, run, say, step

FORM = 1
PROJECTS = ("commerce", "inference")
KEYS = ("secret.key", "jwt.key")
MANIFEST = "manifest.json"

# What the settings say of where things are, and how PostgreSQL's own programs reach the database.
PLACES = """
import json, django
django.setup()
from django.conf import settings
from django.db import connection
told = {"vendor": connection.vendor, "name": str(connection.settings_dict["NAME"]), "version": settings.VERSION}
if connection.vendor == "postgresql":
    known = ("dbname", "user", "password", "host", "port", "sslmode", "sslrootcert", "sslcert", "sslkey", "service")
    given = connection.get_connection_params()
    told["connection"] = {name: str(given[name]) for name in known if given.get(name)}
on_disk = "s3" not in settings.STORAGES["default"]["BACKEND"].lower()
told["files"] = str(settings.MEDIA_ROOT) if on_disk else None
told["models"] = [str(folder) for folder in getattr(settings, "MODELS_DIRS", [])]
print(json.dumps(told))
"""


@dataclass(frozen=True)
class Installation:
    """Where this machine's settings put everything. `places` is by project."""

    home: Path
    places: dict[str, dict[str, Any]]

    @classmethod
    def here(cls) -> "Installation":
        home = Path(os.environ.get("STOA_HOME", ROOT)).resolve()
        return cls(home, {project: _places(project) for project in PROJECTS})

    def databases(self) -> list[tuple[str, dict[str, Any]]]:
        """Each once, with the name of its copy: the projects often share one."""
        found: dict[str, tuple[str, dict[str, Any]]] = {}
        for project, told in self.places.items():
            mark = json.dumps([told["vendor"], told["name"], told.get("connection")])
            found.setdefault(mark, (f"database-{project}", told))
        return list(found.values())

    def folders(self) -> Iterator[tuple[str, Path]]:
        """The name of each copy, and its original."""
        for project, told in self.places.items():
            if told["files"]:
                yield f"files-{project}", Path(told["files"])
            for number, folder in enumerate(told["models"]):
                yield f"models-{number}", Path(folder)


def backup(arguments: argparse.Namespace) -> None:
    """Copies everything while it runs. The files are copied before the database and again after it: so no row of the
    copy lacks its file, whatever was uploaded meanwhile."""
    into = arguments.folder.resolve()
    if into.exists() and any(into.iterdir()):
        raise Failed(f"{into} is not empty. Name a new folder for each backup.")
    into.mkdir(mode=0o700, parents=True, exist_ok=True)
    into.chmod(0o700)
    installation = Installation.here()
    say(f"Backing up into {into}:")
    _copy_folders(installation, into)
    for name, told in installation.databases():
        with step(f"The database {_said(told)}"):
            _dump(told, into / name)
    _copy_folders(installation, into)
    kept = [*(installation.home / "var" / name for name in KEYS), installation.home / ".env"]
    for path in filter(Path.is_file, kept):
        _copy_private(path, into / path.name)
    in_s3 = [project for project, told in installation.places.items() if not told["files"]]
    manifest = {"form": FORM, "made_at": datetime.now(UTC).isoformat(), "files_in_s3": in_s3}
    write_private(
        into / MANIFEST, manifest | {"version": installation.places["commerce"]["version"]}
    )  # last: it is whole
    for project in in_s3:
        say(f"  The files of {project} are in S3: they are not in here. Keep them by the bucket's versions.")
    say("Done. It holds passwords' hashes, keys and people's data: keep it as safe as the installation itself.")


def restore(arguments: argparse.Namespace) -> None:
    """Puts a backup where the settings say, which must be empty, and brings its tables up to this version."""
    source = arguments.folder.resolve()
    manifest = read_json(source / MANIFEST)
    if manifest.get("form") != FORM:
        raise Failed(f"{source} is no whole backup of this form: it has no {MANIFEST} that says so.")
    home = Path(os.environ.get("STOA_HOME", ROOT)).resolve()
    say(f"Restoring {source}, of {manifest['made_at']}, into {home}:")
    _restore_keys(source, home)
    installation = Installation.here()  # after the keys: it makes those that are missing
    _refuse_what_has_no_place(source, installation)
    for name, told in installation.databases():
        with step(f"The database {_said(told)}"):
            _load(told, source / name)
    for name, folder in installation.folders():
        if (source / name).is_dir():
            with step(f"{folder}"):
                if folder.exists() and any(folder.iterdir()):
                    raise Failed(f"{folder} is not empty. Restore into an empty place.")
                _copy_tree(source / name, folder)
    for project in PROJECTS:
        with step(f"The tables of {project}, as this version has them"):
            run([_python(), f"manage_{project}.py", "migrate", "--noinput", "-v0"], env=_env(project), what="Migrating")
    say("Done. Start the processes; `manage_commerce.py collect_attachments --scan` compares files and rows.")


def _places(project: str) -> dict[str, Any]:
    output = run([_python(), "-c", PLACES], env=_env(project), what=f"Reading the settings of {project}")
    told: dict[str, Any] = json.loads(output.splitlines()[-1])
    return told


def _env(project: str) -> dict[str, str]:
    """The project's settings: of the kind that the environment names."""
    kind = os.environ.get("DJANGO_SETTINGS_MODULE", "base").rpartition(".")[2]
    return os.environ | {"DJANGO_SETTINGS_MODULE": f"{project}.config.settings.{kind}", "STOA_LOG_LEVEL": "WARNING"}


def _python() -> str:
    """That of `.venv`; in a container there is none, and our own has the packages."""
    return str(PYTHON) if PYTHON.exists() else sys.executable


def _said(told: dict[str, Any]) -> str:
    return f"{told['name']} ({told['vendor']})"


def _copy_folders(installation: Installation, into: Path) -> None:
    for name, folder in installation.folders():
        if folder.is_dir():
            with step(f"{folder}"):
                _copy_tree(folder, into / name)


def _copy_tree(source: Path, target: Path) -> None:
    """What is not there yet, or was not whole. Nothing that has its name ever changes; what goes meanwhile has gone.
    Hidden folders hold downloads that are not whole."""
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
                raise Failed(f"{original} cannot be copied to {copy}: {error.strerror}.") from error


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
            raise Failed(f"{target} is there and is another. Restore into an empty place, with STOA_HOME=...")
        if not target.exists():
            _copy_private(source / name, target)


def _refuse_what_has_no_place(source: Path, installation: Installation) -> None:
    """What the backup has and the settings do not know would be left behind without a word."""
    known = {MANIFEST, ".env", *KEYS, *(name for name, _ in [*installation.databases(), *installation.folders()])}
    known |= {name + beside for name in known for beside in ("-wal", "-shm")}  # of a restore that was cut off
    left = sorted(path.name for path in source.iterdir() if path.name not in known)
    if left:
        raise Failed(
            f"{source} has {', '.join(left)}, for which these settings have no place. Are both projects' DATABASE_URL "
            "as they were, one or two, and STOA_MODELS_DIR and STOA_STORAGE?"
        )


def _dump(told: dict[str, Any], target: Path) -> None:
    if told["vendor"] == "postgresql":
        _postgresql("pg_dump", told, "--format=custom", f"--file={target}")
        target.chmod(0o600)
        return
    _copy_sqlite(Path(told["name"]), target)


def _copy_sqlite(source: Path, target: Path) -> None:
    """As it was at one moment: in one step, that holds up no writer."""
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        told = _copy_pages(source, target)
    except sqlite3.Error as error:
        raise Failed(
            f"{source} cannot be copied to {target}: {error}. Are DATABASE_URL and STOA_HOME those of the processes?"
        ) from error
    if told != "ok":
        raise Failed(
            f"The copy of {source} is damaged: {told}. Check the original: sqlite3 {source} 'PRAGMA integrity_check'"
        )


def _copy_pages(source: Path, target: Path) -> str:
    """What SQLite says of the copy: ok."""
    name = urllib.parse.quote(str(source))
    with (
        contextlib.closing(sqlite3.connect(f"file:{name}?mode=rw", uri=True, timeout=60)) as original,
        contextlib.closing(sqlite3.connect(target)) as copy,
    ):
        original.backup(copy)
        copy.create_function("regexp", 2, lambda pattern, text: bool(re.search(pattern, text)))  # constraints ask it
        return str(copy.execute("PRAGMA integrity_check").fetchone()[0])


def _load(told: dict[str, Any], source: Path) -> None:
    if not source.is_file():
        raise Failed(f"The backup has no {source.name}: are both projects' DATABASE_URL as they were, one or two?")
    with source.open("rb") as file:
        is_dump = file.read(5) == b"PGDMP"
    if is_dump != (told["vendor"] == "postgresql"):
        raise Failed(
            f"{source.name} is of another kind of database than {_said(told)}. Set DATABASE_URL to the same kind."
        )
    if is_dump:
        options = ("--exit-on-error", "--single-transaction", "--no-owner", "--no-privileges")
        _postgresql("pg_restore", told, *options, str(source))
        return
    target = Path(told["name"])
    if target.exists() and target.stat().st_size:
        raise Failed(f"{target} is there. Restore into an empty place.")
    target.unlink(missing_ok=True)
    _copy_sqlite(source, target)


def _postgresql(program: str, told: dict[str, Any], *options: str) -> None:
    """One of PostgreSQL's own programs. The password is not in the command, which others could list."""
    found = shutil.which(program) or next(
        map(str, sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))[::-1]), ""
    )
    if not found:
        raise Failed(f"{program} is not installed. On Debian: apt-get install postgresql-client")
    given = dict(told["connection"])
    env = os.environ | ({"PGPASSWORD": given.pop("password")} if "password" in given else {})
    words = " ".join(f"{name}='{_quoted(value)}'" for name, value in given.items())
    run([found, "--dbname", words, *options], env=env, what=program)


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")
