"""Programs that tests run, and that a developer's machine may lack. With CI=true, tests fail without them."""

import os
import shutil

import pytest

IN_CI = os.environ.get("CI") == "true"


def needs(program: str, *, package: str) -> pytest.MarkDecorator:
    """Return the mark of tests that run a program, which a package of Debian has."""
    found = shutil.which(program) or shutil.which(f"/usr/sbin/{program}")
    return pytest.mark.skipif(found is None and not IN_CI, reason=f"NOT RUN: apt-get install {package}")
