"""The command line of `deploy/run`."""

import subprocess
import sys

import pytest
from steps.judges import TEST_RUNS

from tests.deploy.conftest import DEPLOY

ROOT = DEPLOY.parent


def deploy_run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, DEPLOY / "run", *arguments], capture_output=True, text=True, timeout=60)


def test_help_names_the_commands():
    told = deploy_run("--help")
    assert told.returncode == 0
    assert all(command in told.stdout for command in ("demo", "test", "check", "bench", "backup", "restore"))


@pytest.mark.parametrize("arguments", [["demo", "--colour"], ["dance"], [], ["demo", "--commerce-port", "many"]])
def test_a_wrong_call_is_refused_before_anything_is_done(arguments: list[str]):
    told = deploy_run(*arguments)
    assert told.returncode == 2
    assert told.stdout == ""


def test_an_unknown_benchmark_is_refused_with_the_known_ones():
    told = deploy_run("bench", "nothing")
    assert told.returncode == 1
    assert "There is no benchmark 'nothing'. There are: " in told.stderr


def test_every_test_of_the_tree_is_in_a_run():
    covered = {path for test_run in TEST_RUNS for path in test_run.paths}
    files = {path.relative_to(ROOT) for path in (ROOT / "tests").glob("**/test_*.py")}
    assert {str(file) for file in files if not any(file.is_relative_to(path) for path in covered)} == set()


def test_a_given_path_is_run_where_it_belongs():
    chosen = {
        test_run.name: test_run.chosen(["tests/shared/serving/asgi/test_wrapper.py::test_x"]) for test_run in TEST_RUNS
    }
    assert {name for name, paths in chosen.items() if paths} == {
        "commerce on SQLite",
        "commerce on PostgreSQL",
    }
