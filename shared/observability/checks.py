"""Checks of an installation for its operator: what is wrong, and what to do.

`/readyz` is for balancers and says only whether a process can serve. These are for people: the command `doctor` and the
admin's health page.
"""

import platform
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import django
import redis
from celery import Celery
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.template.defaultfilters import filesizeformat
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from kombu.exceptions import OperationalError

MIN_FREE_BYTES = 1_000_000_000
MAX_CLOCK_DIFFERENCE_SECONDS = 5
REDIS_TIMEOUT_SECONDS = 3
WORKER_TIMEOUT_SECONDS = 1.0


@dataclass(frozen=True)
class Finding:
    """The outcome of a check. advice: what to do about a problem, or empty."""

    check: str
    is_ok: bool
    found: str
    advice: str = ""


Check = Callable[[], Iterable[Finding]]


def run_checks(checks: Sequence[Check]) -> list[Finding]:
    """Return the findings of all checks. One that the database fails is a finding itself."""
    findings: list[Finding] = []
    for check in checks:
        try:
            findings += check()
        except DatabaseError as error:
            if any(one.check == _("database") and not one.is_ok for one in findings):
                continue  # the same problem again, seen by another check
            reason = str(error).strip().partition("\n")[0]
            found = _("The database fails: %(reason)s.") % {"reason": reason}
            findings.append(Finding(_("database"), False, found))
    return findings


def check_version() -> list[Finding]:
    """Return the versions of this installation."""
    versions = f"Stoa {settings.VERSION}, Python {platform.python_version()}, Django {django.get_version()}."
    return [Finding(_("version"), True, versions)]


def check_database() -> list[Finding]:
    """Return whether the database answers, has all tables, and, on another machine, the same time as this one."""
    try:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
        name = _database_name()
        if missing:
            text = ngettext(
                "%(database)s: %(count)s migration is missing.",
                "%(database)s: %(count)s migrations are missing.",
                len(missing),
            )
            advice = _("Create the tables with: %(command)s") % {
                "command": f"python manage_{settings.PROJECT}.py migrate"
            }
            return [Finding(_("database"), False, text % {"database": name, "count": len(missing)}, advice)]
        return [Finding(_("database"), True, f"{name}."), *_check_clock()]
    except DatabaseError as error:
        reason = str(error).strip().partition("\n")[0]
        return [Finding(_("database"), False, f"{reason}.", _("Start the database, or correct DATABASE_URL."))]


def _database_name() -> str:
    if connection.vendor == "sqlite":
        return f"SQLite {sqlite3.sqlite_version}, {connection.settings_dict['NAME']}"
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        return f"PostgreSQL {cursor.fetchone()[0].split()[0]}"


def _check_clock() -> list[Finding]:
    if connection.vendor != "postgresql":
        return []
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())")
        difference = float(cursor.fetchone()[0]) - time.time()
    is_ok = abs(difference) <= MAX_CLOCK_DIFFERENCE_SECONDS
    text = _("%(seconds)s s behind the database.") if difference > 0 else _("%(seconds)s s ahead of the database.")
    found = text % {"seconds": number_format(abs(difference), decimal_pos=1)}
    advice = "" if is_ok else _("Synchronize both by NTP: tokens and links expire.")
    return [Finding(_("clock"), is_ok, found, advice)]


def check_redis() -> list[Finding]:
    """Return whether Redis answers, if one is configured."""
    if not settings.REDIS_URL:
        return [Finding("redis", True, _("None: each process counts limits for itself."))]
    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=REDIS_TIMEOUT_SECONDS) as client:
            client.ping()
            memory = filesizeformat(client.info("memory")["used_memory"])
    except redis.RedisError as error:
        found = _("It does not answer: %(reason)s.") % {"reason": str(error).rstrip(".")}
        return [Finding("redis", False, found, _("Start it, or correct REDIS_URL."))]
    return [Finding("redis", True, _("It answers, and uses %(memory)s.") % {"memory": memory})]


def check_workers(app: Celery, count_queued: Callable[[], int]) -> list[Finding]:
    """Return whether workers answer, and how many tasks wait for them."""
    if not app.conf.broker_url:
        advice = _("Set REDIS_URL, and start a worker.")
        return [Finding(_("workers"), False, _("There is no broker, so no worker gets tasks."), advice)]
    try:
        answers = app.control.ping(timeout=WORKER_TIMEOUT_SECONDS)
    except OperationalError as error:
        found = _("The broker does not answer: %(reason)s.") % {"reason": str(error).rstrip(".")}
        return [Finding(_("workers"), False, found, _("Start it, or correct REDIS_URL or STOA_BROKER_URL."))]
    numbers = {"workers": len(answers or []), "tasks": count_queued()}
    found = _("Workers that answer: %(workers)s. Tasks that wait: %(tasks)s.") % numbers
    if not answers:
        return [Finding(_("workers"), False, found, _("Start one; its log says why if it ends."))]
    return [Finding(_("workers"), True, found)]


def check_disk(folders: Iterable[Path]) -> list[Finding]:
    """Return whether these folders can be written and have room. A missing one is made when it is needed."""
    return [_check_folder(folder) for folder in sorted({*folders}) if not _is_missing(folder)]


def _is_missing(folder: Path) -> bool:
    return not folder.exists() and folder.parent.is_dir()


def _check_folder(folder: Path) -> Finding:
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"0")
        free = shutil.disk_usage(folder).free
    except OSError as error:
        advice = _("Give it to the user that runs Stoa (chown), and mount it for writing.")
        text = _("%(folder)s cannot be written: %(reason)s.") % {"folder": folder, "reason": error.strerror}
        return Finding(_("disk"), False, text, advice)
    found = _("%(folder)s: %(size)s GB free.") % {"folder": folder, "size": number_format(free / 1e9, decimal_pos=1)}
    if free < MIN_FREE_BYTES:
        return Finding(_("disk"), False, found, _("Delete files there, or move the data with STOA_HOME."))
    return Finding(_("disk"), True, found)
