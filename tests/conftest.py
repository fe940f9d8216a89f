"""Fixtures of all test runs: one running demo and one migrated database, with hooks for what a run makes once."""

import gc
from collections.abc import Generator

import pytest

from tests.migrated_database import (  # noqa: F401
    django_db_keepdb,
    django_db_modify_db_settings,
    django_db_setup,
)
from tests.once_per_run import pytest_configure, pytest_unconfigure  # noqa: F401
from tests.running_stoa import stoa  # noqa: F401


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector from searching the imported modules and collected tests, which live as long as it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show why a test failed that then ran again, so that it can be made steady."""
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.section(f"first run of {report.nodeid}", "_")
        terminalreporter.write_line(report.longreprtext)
