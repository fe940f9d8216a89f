"""The command `doctor`."""

import asyncio
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import redis
import typer
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models.functions import Now

from inference.cli.errors import EXIT_FAILURE
from inference.cli.output import JsonOption, format_bytes, print_json, print_table
from inference.engine import EngineError, ModelState
from inference.registry.catalog import read_catalog
from inference.registry.clients import host
from inference.registry.models import DesiredModel
from shared.accounts.models import User

MIN_FREE_BYTES = 1_000_000_000
MAX_CLOCK_DIFFERENCE_SECONDS = 5
REDIS_TIMEOUT_SECONDS = 3
DEFAULT_PORT = 8001


@dataclass(frozen=True)
class Finding:
    """The outcome of a check. advice: what to do about a problem, or empty."""

    check: str
    is_ok: bool
    found: str
    advice: str = ""


def doctor(as_json: JsonOption = False) -> None:
    """Check this installation: database, Redis, model host, models, disk, port and clock.

    Say what is wrong and what to do. Exit with 0 if nothing is, else with 1.
    """
    checks: tuple[Callable[[], list[Finding]], ...] = (
        check_database,
        check_redis,
        check_model_host,
        check_models,
        check_disk,
        check_port,
        check_compiler,
    )
    findings = [finding for check in checks for finding in check()]
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        rows = ((one.check, "ok" if one.is_ok else "PROBLEM", f"{one.found} {one.advice}".strip()) for one in findings)
        print_table(("check", "outcome", "found"), rows)
    if not all(finding.is_ok for finding in findings):
        raise typer.Exit(EXIT_FAILURE)


def check_database() -> list[Finding]:
    """Return whether the database answers, has all tables, and has the time of this machine."""
    name = f"{connection.vendor} {connection.settings_dict['NAME']}"
    try:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
        if missing:
            found = f"{name} lacks {len(missing)} migrations."
            return [Finding("database", False, found, "Create its tables with: stoa migrate")]
        asked_at = time.time()
        now = User.objects.order_by("pk").annotate(database_time=Now()).values_list("database_time", flat=True).first()
    except DatabaseError as error:
        advice = "Start the database, or correct DATABASE_URL."
        return [Finding("database", False, f"{name} does not answer: {str(error).strip()}.", advice)]
    findings = [Finding("database", True, name)]
    if now is None:
        advice = "Create a super admin with: stoa createsuperuser"
        return [*findings, Finding("accounts", False, "There are no users.", advice)]
    return [*findings, _clock("the database", now.timestamp() - asked_at)]


def _clock(where: str, difference: float) -> Finding:
    found = f"{abs(difference):.1f} s {'behind' if difference > 0 else 'ahead of'} {where}"
    is_ok = abs(difference) <= MAX_CLOCK_DIFFERENCE_SECONDS
    return Finding("clock", is_ok, found, "" if is_ok else "Synchronize both clocks by NTP: tokens and links expire.")


def check_redis() -> list[Finding]:
    """Return whether Redis answers, if one is configured."""
    if not settings.REDIS_URL:
        found = "none: each process counts its own limits, and batches wait for a worker with a broker."
        return [Finding("redis", True, found)]
    try:
        client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=REDIS_TIMEOUT_SECONDS)
        version = client.info("server")["redis_version"]  # type: ignore[index]
    except redis.RedisError as error:
        return [Finding("redis", False, f"It does not answer: {error}.", "Start it, or correct REDIS_URL.")]
    return [Finding("redis", True, f"version {version}")]


def check_model_host() -> list[Finding]:
    """Return whether the model host answers, and the models that failed there or should be loaded and are not."""
    try:
        statuses = asyncio.run(host().models())
    except EngineError as error:
        return [Finding("model host", False, str(error), "Start it with: stoa serve")]
    loaded = {status.model_id for status in statuses if status.state is ModelState.LOADED}
    findings = [Finding("model host", True, f"{len(loaded)} models loaded")]
    errors = {status.model_id: status.error for status in statuses if status.error}
    for model_id in DesiredModel.objects.filter(is_desired=True).values_list("model_id", flat=True):
        if model_id not in loaded:
            found = f"{model_id} should be loaded and is not. {errors.get(model_id, '')}".strip()
            advice = f"Load it with: stoa models load {model_id}; or give it up with: stoa models unload {model_id}"
            findings.append(Finding("model", False, found, advice))
    return findings


def check_models() -> list[Finding]:
    """Return whether the folders of models can be read, and which models cannot be loaded."""
    findings = [
        Finding("model folder", False, f"{folder} cannot be read.", "Create it, or correct STOA_MODELS_DIR.")
        for folder in settings.MODELS_DIRS
        if folder != settings.VAR_DIR / "models" and not os.access(folder, os.R_OK | os.X_OK)
    ]
    catalog = read_catalog().values()
    findings += [Finding("model", False, f"{model.id}: {model.error}") for model in catalog if model.error]
    usable = [model.id for model in catalog if not model.error]
    return [*findings, Finding("models", bool(usable), ", ".join(usable) or "There are none.")]


def check_disk() -> list[Finding]:
    """Return whether the folders of data can be written and have room."""
    return [_folder(folder) for folder in sorted({settings.VAR_DIR, Path(settings.MEDIA_ROOT), settings.RUN_DIR})]


def _folder(folder: Path) -> Finding:
    try:
        with tempfile.TemporaryFile(dir=folder):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            return Finding("disk", True, f"{folder} is not there yet.")
        advice = f"Give it to the user that runs Stoa: chown -R $USER {folder}"
        return Finding("disk", False, f"{folder} cannot be written: {error.strerror}.", advice)
    is_ok = free >= MIN_FREE_BYTES
    advice = "" if is_ok else "Delete files there, or move the data with STOA_HOME."
    return Finding("disk", is_ok, f"{folder}: {format_bytes(free)} free.", advice)


def check_port() -> list[Finding]:
    """Return whether the port of `serve` is free, or whose it is."""
    with socket.socket() as probe:
        probe.settimeout(1)
        is_taken = probe.connect_ex(("127.0.0.1", DEFAULT_PORT)) == 0
    found = "taken, by a running server or another program" if is_taken else "free"
    return [Finding("port", True, f"{DEFAULT_PORT} is {found}.")]


def check_compiler() -> list[Finding]:
    """Return whether the engine's kernels can be compiled here."""
    found = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    return [Finding("compiler", True, found or "none: models run on torch alone, more slowly. Install g++ for more.")]
