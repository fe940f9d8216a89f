"""The command `doctor`."""

import socket
from dataclasses import asdict

import httpx2
import typer

from inference.cli.errors import EXIT_FAILURE
from inference.cli.output import JsonOption, print_json, print_table
from inference.metrics.health_checks import CHECKS
from shared.observability.checks import Finding, run_checks

DEFAULT_PORT = 8001


def doctor(as_json: JsonOption = False) -> None:
    """Check this installation: database, Redis, workers, model host, models, webhooks, disk, clock and port.

    Say what is wrong and what to do. Exit with 0 if nothing is, else with 1.
    """
    findings = run_checks([*CHECKS, check_port])
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        rows = ((one.check, "ok" if one.is_ok else "PROBLEM", f"{one.found} {one.advice}".strip()) for one in findings)
        print_table(("check", "state", "found"), rows)
    if not all(finding.is_ok for finding in findings):
        raise typer.Exit(EXIT_FAILURE)


def check_port() -> list[Finding]:
    """Return whether the default port of `serve` is free, or has a server of Stoa."""
    with socket.socket() as probe:
        probe.settimeout(1)
        if probe.connect_ex(("127.0.0.1", DEFAULT_PORT)):
            return [Finding("port", True, f"{DEFAULT_PORT} is free.")]
    try:
        version = httpx2.get(f"http://127.0.0.1:{DEFAULT_PORT}/health", timeout=2).json()["version"]
    except (httpx2.HTTPError, ValueError, KeyError, TypeError):
        advice = "Stop it, or give `serve` another port: --port N."
        return [Finding("port", False, f"{DEFAULT_PORT} is taken by another program.", advice)]
    return [Finding("port", True, f"{DEFAULT_PORT} has Stoa {version}.")]
