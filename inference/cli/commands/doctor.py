"""The command `doctor`."""

import socket
import time
from dataclasses import asdict, dataclass
from email.utils import parsedate_to_datetime

import httpx2
import typer
from django.conf import settings

from inference.cli.errors import EXIT_FAILURE
from inference.cli.output import JsonOption, print_json, print_table
from inference.metrics.health_checks import CHECKS
from shared.observability.checks import MAX_CLOCK_DIFFERENCE_SECONDS, Finding, run_checks

SHOP_PORT, DEFAULT_PORT = 8000, 8001
SERVER_TIMEOUT_SECONDS = 5
# In production a server redirects what comes without TLS, unless its proxy says that a client has it.
HEADERS = {"Accept": "application/json", "X-Forwarded-Proto": "https"}


def doctor(as_json: JsonOption = False) -> None:
    """Check this installation: database, Redis, workers, model host, models, webhooks, disk, clock and ports.

    Say what is wrong and what to do. Exit with 0 if nothing is, else with 1.
    """
    findings = run_checks([*CHECKS, check_ports, check_server])
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        rows = ((one.check, "ok" if one.is_ok else "PROBLEM", f"{one.found} {one.advice}".strip()) for one in findings)
        print_table(("check", "state", "found"), rows)
    if not all(finding.is_ok for finding in findings):
        raise typer.Exit(EXIT_FAILURE)


def check_ports() -> list[Finding]:
    """Return whether the default ports of both servers are free, or have a server of Stoa.

    Another program at the shop's is no problem here: this may be a machine of the model server alone.
    """
    return [_check_port(SHOP_PORT, is_needed=False), _check_port(DEFAULT_PORT, is_needed=True)]


def _check_port(port: int, *, is_needed: bool) -> Finding:
    with socket.socket() as probe:
        probe.settimeout(1)
        if probe.connect_ex(("127.0.0.1", port)):
            return Finding("port", True, f"{port} is free.")
    answer = _ask_server(f"http://127.0.0.1:{port}")
    if answer:
        return Finding("port", True, f"{port} has the {answer.server}.")
    advice = "Stop it, or give `serve` another port: --port N."
    return Finding("port", not is_needed, f"{port} is taken by another program.", advice)


def check_server() -> list[Finding]:
    """Return whether the server of STOA_URL, if it is set, answers and has the same time as this machine."""
    if not settings.SERVER_URL:
        return []
    answer = _ask_server(settings.SERVER_URL.rstrip("/"))
    if not answer:
        return [Finding("server", False, f"{settings.SERVER_URL} does not answer as Stoa does.", "Correct STOA_URL.")]
    server = Finding("server", True, f"{settings.SERVER_URL} has the {answer.server}.")
    is_ok = abs(answer.seconds_behind) <= MAX_CLOCK_DIFFERENCE_SECONDS
    found = f"{abs(answer.seconds_behind):.0f} s {'behind' if answer.seconds_behind > 0 else 'ahead of'} the server."
    return [
        server,
        Finding("clock", is_ok, found, "" if is_ok else "Synchronize both by NTP: tokens and links expire."),
    ]


@dataclass(frozen=True)
class _Answer:
    server: str  # its name and version
    seconds_behind: float  # this machine's clock, by the server's header Date, which has whole seconds


def _ask_server(url: str) -> _Answer | None:
    """Return what a server of Stoa says of itself, or None if there is none at this address."""
    try:
        response = httpx2.get(f"{url}/", headers=HEADERS, timeout=SERVER_TIMEOUT_SECONDS)
        about, date = response.json(), parsedate_to_datetime(response.headers["Date"])
        if about["name"].startswith("Stoa "):
            return _Answer(f"{about['name']} {about['version']}", date.timestamp() - time.time())
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, LookupError, TypeError, AttributeError):
        pass
    return None
