"""The units of one machine."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.manifests import DEPLOY, LEFT_OVER_S, REPOSITORY, drain_of, units

UNITS = units()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed here")
def test_systemd_finds_nothing_wrong(tmp_path: Path):
    for unit in (DEPLOY / "systemd").glob("stoa*.*"):
        text = unit.read_text().replace("/opt/stoa/.venv/bin/", f"{Path(sys.executable).parent}/")
        text = re.sub(r"^(User|Group)=stoa$", r"\1=root", text, flags=re.M)  # nobody is called so here
        (tmp_path / unit.name).write_text(text)
    names = [name.replace("@.", "@8001.") for name in UNITS]
    for name in names:
        if "@8001" in name:
            (tmp_path / name).symlink_to(tmp_path / name.replace("@8001", "@"))
    verified = subprocess.run(
        [
            "systemd-analyze",
            "verify",
            "--man=no",
            "--recursive-errors=no",
            *(str(tmp_path / name) for name in [*names, "stoa.target"]),
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (verified.returncode, [line for line in verified.stderr.splitlines() if "stoa" in line]) == (0, [])


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_is_hardened(name: str):
    said = UNITS[name]
    assert (said["User"], said["NoNewPrivileges"], said["ProtectSystem"]) == (["stoa"], ["yes"], ["strict"])
    assert (said["CapabilityBoundingSet"], said["ProtectHome"]) == ([""], ["yes"])
    assert said["Restart"] == ["always"]


@pytest.mark.parametrize("name", UNITS)
def test_what_a_unit_starts_is_there(name: str):
    words = UNITS[name]["ExecStart"][0].split()
    assert words[0] in ("/opt/stoa/.venv/bin/python", "/opt/stoa/.venv/bin/celery")
    if words[1].endswith(".py"):
        assert (REPOSITORY / words[1]).is_file()
    elif words[1] == "-m":
        module = REPOSITORY.joinpath(*words[2].split("."))
        assert module.with_suffix(".py").is_file() or (module / "__main__.py").is_file()


def test_a_unit_has_longer_than_its_process_drains():
    drained = {name: said for name, said in UNITS.items() if "--drain" in said["ExecStart"][0]}
    assert drained.keys() == {"stoa-commerce-web@.service", "stoa-inference-web@.service"}
    for said in drained.values():
        assert float(said["TimeoutStopSec"][0]) > drain_of(said["ExecStart"][0]) + LEFT_OVER_S


def test_the_model_host_has_neither_secrets_nor_a_network():
    host = UNITS["stoa-model-host.service"]
    assert (host["PrivateNetwork"], host["RestrictAddressFamilies"]) == (["yes"], ["AF_UNIX"])
    assert host["EnvironmentFile"] == ["-/etc/stoa/model-host.env"]
    run_dir = host["ExecStart"][0].split("--run-dir ")[1].split()[0]
    for name in ("stoa-inference-web@.service", "stoa-inference-worker.service"):
        assert f"STOA_RUN_DIR={run_dir}" in UNITS[name]["Environment"][1]
        assert "STOA_START_HOST=false" in UNITS[name]["Environment"][1]


def test_nginx_asks_the_processes_that_the_target_starts():
    started = set(re.findall(r"stoa-\w+-web@(\d+)", (DEPLOY / "systemd" / "stoa.target").read_text()))
    asked = set(re.findall(r"server 127\.0\.0\.1:(\d+)", (DEPLOY / "nginx" / "upstreams.conf").read_text()))
    assert asked == started
