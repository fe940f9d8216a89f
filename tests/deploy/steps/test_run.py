"""The command line of `deploy/run`, and its test runs and benchmarks."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from steps.benchmarks import benchmark_modules
from steps.tests import list_test_runs, run_pytest, wait_for_end_of_processes

from tests.deploy.conftest import DEPLOY

REPOSITORY = DEPLOY.parent


def deploy_run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, DEPLOY / "run", *arguments], capture_output=True, text=True, timeout=60)


def test_help_lists_the_commands():
    completed = deploy_run("--help")
    assert completed.returncode == 0
    assert all(command in completed.stdout for command in ("demo", "test", "check", "bench", "backup", "restore"))


@pytest.mark.parametrize("arguments", [["demo", "--colour"], ["dance"], [], ["demo", "--commerce-port", "many"]])
def test_wrong_arguments_are_rejected_before_anything_is_done(arguments: list[str]):
    completed = deploy_run(*arguments)
    assert completed.returncode == 2
    assert completed.stdout == ""


def test_an_unknown_benchmark_is_rejected_with_the_known_ones():
    completed = deploy_run("bench", "nothing")
    assert completed.returncode == 1
    assert f"There is no benchmark 'nothing'. There are: {', '.join(sorted(benchmark_modules()))}" in completed.stderr


def test_each_benchmark_has_a_name_of_its_own():
    files = [path for path in (REPOSITORY / "tests" / "benchmarks").rglob("[!_]*.py") if path.is_file()]
    assert len(files) == len(benchmark_modules()) > 0


def test_every_test_file_is_in_a_run():
    covered = {path for test_run in list_test_runs() for path in test_run.paths}
    files = {path.relative_to(REPOSITORY) for path in (REPOSITORY / "tests").glob("**/test_*.py")}
    assert {str(file) for file in files if not any(file.is_relative_to(path) for path in covered)} == set()


def test_a_new_folder_of_tests_joins_a_run(tmp_path: Path):
    for name in ("commerce/test_a", "inference/test_b", "shared/test_c", "journeys/test_d", "new/deep/test_e"):
        file = tmp_path / "tests" / f"{name}.py"
        file.parent.mkdir(parents=True)
        file.touch()
    (tmp_path / "tests" / "test_f.py").touch()
    (tmp_path / "tests" / "helper.py").touch()
    (tmp_path / "tests" / "shared" / "test_g.py").write_text("pytestmark = pytest.mark.each_project")
    paths = {test_run.name: test_run.paths for test_run in list_test_runs(tmp_path)}
    assert paths["the repository and its deployment"] == ["tests/new", "tests/test_f.py"]
    assert paths["inference on SQLite"] == ["tests/inference", "tests/shared/test_g.py"]


def test_a_requested_path_runs_with_the_settings_of_its_project():
    requested = ["tests/shared/serving/asgi/test_wrapper.py::test_x"]
    runs = {test_run.name for test_run in list_test_runs() if test_run.select(requested)}
    assert runs == {"commerce on SQLite", "commerce on PostgreSQL"}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_that_tests_leave_running_is_listed():
    program = "import subprocess; print(subprocess.Popen(['sleep', '60'], stdout=-3, stderr=-3).pid)"
    code, pid = run_pytest([sys.executable, "-c", program])
    try:
        assert code == 0
        assert wait_for_end_of_processes(0) == [f"  {pid} sleep 60 "]
    finally:
        os.kill(int(pid), signal.SIGKILL)
    assert wait_for_end_of_processes() == []
