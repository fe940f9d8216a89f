"""The systemd units of one machine."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.manifests import DEPLOY, FORCED_CLOSE_SECONDS, REPOSITORY, drain_seconds, units

UNITS = units()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed here")
def test_systemd_accepts_the_units(tmp_path: Path):
    for unit in (DEPLOY / "systemd").glob("stoa*.*"):
        text = unit.read_text().replace("/opt/stoa/.venv/bin/", f"{Path(sys.executable).parent}/")
        text = re.sub(r"^(User|Group)=stoa$", r"\1=root", text, flags=re.M)  # this machine has no user stoa
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


@pytest.mark.skipif(shutil.which("systemctl") is None, reason="NOT RUN: systemd is not installed here")
def test_the_units_can_be_masked_where_the_install_page_puts_them(tmp_path: Path):
    page = (REPOSITORY / "docs" / "operator" / "install.md").read_text()
    [command] = re.findall(r"`([^`\n]*deploy/systemd/[^`\n]*)`, then `systemctl daemon-reload`", page)
    into_root = re.sub(r" (/\S+)", rf" {tmp_path}\1", command)
    (tmp_path / "etc" / "systemd" / "system").mkdir(parents=True)
    subprocess.run(["bash", "-ec", into_root], cwd=REPOSITORY, check=True)
    names = [name.replace("@.", "@8001.") for name in UNITS]
    masked = subprocess.run(["systemctl", f"--root={tmp_path}", "mask", *names], capture_output=True, text=True)
    assert masked.returncode == 0, masked.stderr


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_is_hardened(name: str):
    unit = UNITS[name]
    assert (unit["User"], unit["NoNewPrivileges"], unit["ProtectSystem"]) == (["stoa"], ["yes"], ["strict"])
    assert (unit["CapabilityBoundingSet"], unit["ProtectHome"]) == ([""], ["yes"])
    assert unit["InaccessiblePaths"] == ["-/opt/stoa/.git"]
    assert unit["Restart"] == ["always"]


@pytest.mark.parametrize("name", UNITS)
def test_the_program_of_a_unit_exists(name: str):
    words = UNITS[name]["ExecStart"][0].split()
    assert words[0] in ("/opt/stoa/.venv/bin/python", "/opt/stoa/.venv/bin/celery")
    if words[1].endswith(".py"):
        assert (REPOSITORY / words[1]).is_file()
    elif words[1] == "-m":
        module = REPOSITORY.joinpath(*words[2].split("."))
        assert module.with_suffix(".py").is_file() or (module / "__main__.py").is_file()


def test_the_stop_timeout_is_longer_than_the_drain():
    draining = {name: unit for name, unit in UNITS.items() if "--drain" in unit["ExecStart"][0]}
    assert draining.keys() == {"stoa-commerce-web@.service", "stoa-inference-web@.service"}
    for unit in draining.values():
        assert float(unit["TimeoutStopSec"][0]) > drain_seconds(unit["ExecStart"][0]) + FORCED_CLOSE_SECONDS


def test_the_model_host_has_neither_secrets_nor_a_network():
    host = UNITS["stoa-model-host.service"]
    assert host["PrivateNetwork"] == ["yes"]
    assert (host["IPAddressDeny"], host["IPAddressAllow"]) == (["any"], ["localhost"])
    assert host["EnvironmentFile"] == ["-/etc/stoa/model-host.env"]
    run_dir = host["ExecStart"][0].split("--run-dir ")[1].split()[0]
    for name in ("stoa-inference-web@.service", "stoa-inference-worker.service"):
        environment = " ".join(UNITS[name]["Environment"]).split()
        assert {f"STOA_RUN_DIR={run_dir}", "STOA_START_HOST=false"} <= set(environment)


def test_the_model_host_finds_installed_engines_and_lets_them_listen_on_loopback():
    host = UNITS["stoa-model-host.service"]
    [home] = re.findall(r"STOA_HOME=(\S+)", " ".join(UNITS["stoa-inference-web@.service"]["Environment"]))
    assert f" --engines-dir {home}/var/engines " in host["ExecStart"][0]  # as shared.environment.var_dir
    assert host["StateDirectory"] == [Path(home).name]  # writable: an engine has a cache in its folder
    families = {"AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK"}  # gloo fails without the last: it lists addresses
    assert set(host["RestrictAddressFamilies"][0].split()) == families


def test_nginx_upstreams_are_the_instances_of_the_target():
    started = set(re.findall(r"stoa-\w+-web@(\d+)", (DEPLOY / "systemd" / "stoa.target").read_text()))
    upstreams = set(re.findall(r"server 127\.0\.0\.1:(\d+)", (DEPLOY / "nginx" / "upstreams.conf").read_text()))
    assert upstreams == started
