"""All of Stoa in containers on one machine."""

import json
import re
from typing import Any

import pytest

from tests.deploy.manifests import DEPLOY, LEFT_OVER_S, compose, compose_variables, drain_of, instructions

GIVEN = dict.fromkeys(compose_variables(), "/given")
OURS = ("stoa/commerce", "stoa/inference")
ONCE = {"commerce-migrate", "inference-migrate", "models"}


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = compose(GIVEN)["services"]
    return found


def command_of(service: dict[str, Any]) -> str:
    """What the container runs: its own command, or its image's."""
    if "command" in service:
        return " ".join(service["command"])
    image = re.sub(r"^stoa/([\w-]+):.*", r"\1", service["image"])
    return " ".join(json.loads(dict(instructions(DEPLOY / "docker" / f"{image}.Dockerfile"))["CMD"]))


def test_it_is_what_the_compose_specification_allows():
    schemas = pytest.importorskip("check_jsonschema.builtin_schemas")
    jsonschema = pytest.importorskip("jsonschema")
    schema = schemas.get_builtin_schema("vendor.compose-spec")
    jsonschema.validate(compose(GIVEN), schema)


@pytest.mark.parametrize("name", sorted(name for name, must in compose_variables().items() if must))
def test_it_does_not_start_without(name: str):
    with pytest.raises(KeyError, match=name):
        compose(GIVEN | {name: ""})


def test_volumes_and_networks_are_declared(services: dict[str, Any]):
    declared = compose(GIVEN)
    for name, service in services.items():
        mounted = {volume.split(":")[0] for volume in service.get("volumes", []) if isinstance(volume, str)}
        assert {source for source in mounted if source[0] not in "./"} <= declared["volumes"].keys(), name
        assert set(service.get("networks", [])) <= declared["networks"].keys(), name
        for other in service.get("depends_on", []):
            assert other in services


def test_files_that_are_mounted_are_there(services: dict[str, Any]):
    mounted = [
        volume.split(":")[0]
        for service in services.values()
        for volume in service.get("volumes", [])
        if isinstance(volume, str)
    ]
    files = [source for source in mounted if source.startswith(".")]
    assert files
    for source in files:
        assert (DEPLOY / "compose" / source).exists(), source


def test_nothing_of_ours_may_write_its_image_or_become_more_than_it_is(services: dict[str, Any]):
    for name, service in services.items():
        assert "no-new-privileges:true" in service["security_opt"], name
        if name != "postgres":
            assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"]), name


def test_every_image_has_a_version(services: dict[str, Any]):
    for name, service in services.items():
        if name != "model-host":  # the operator names it
            assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+[\w.-]*", service["image"]), name


def test_containers_have_longer_than_their_processes_drain(services: dict[str, Any]):
    drained = {}
    for name, service in services.items():
        if service["image"].startswith(OURS) and "serve" in command_of(service):
            drained[name] = drain_of(command_of(service))
            assert float(service["stop_grace_period"][:-1]) > drained[name] + LEFT_OVER_S
    assert drained.keys() == {"commerce-web-1", "commerce-web-2", "inference-web-1", "inference-web-2"}


def test_only_those_that_mail_send_webhooks_or_download_reach_the_world(services: dict[str, Any]):
    networks = compose(GIVEN)["networks"]
    closed = {name for name, network in networks.items() if network and network.get("internal")}
    leave = {name for name, service in services.items() if set(service.get("networks", ["default"])) - closed}
    assert services["model-host"]["network_mode"] == "none"
    assert leave - {"model-host"} == {
        "commerce-web-1", "commerce-web-2", "commerce-worker", "inference-worker", "models", "nginx", "grafana",
    }  # fmt: skip


def test_only_nginx_is_published(services: dict[str, Any]):
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert published == {"nginx": ["80:80", "443:443"], "grafana": ["127.0.0.1:3000:3000"]}


def test_nginx_and_prometheus_ask_services_that_are_there_at_their_ports(services: dict[str, Any]):
    ports = {"commerce-web": "8000", "inference-web": "8001"}
    servers = re.findall(r"server ([\w-]+):(\d+) resolve", (DEPLOY / "compose" / "upstreams.conf").read_text())
    assert [(name, ports[name[:-2]]) for name, _ in servers] == servers
    assert {name for name, _ in servers} <= services.keys()
    targets = json.loads((DEPLOY / "compose" / "targets.json").read_text())
    asked = dict(target.split(":") for group in targets for target in group["targets"])
    assert asked == ports
    for name in services:
        if name.endswith(("web-1", "web-2")):
            assert services[name]["networks"]["front"]["aliases"] == [name[:-2]]
            assert name[:-2] in services[name]["environment"]["STOA_ALLOWED_HOSTS"].split(",")


def test_the_database_has_connections_for_all_pools(services: dict[str, Any]):
    most = int(services["postgres"]["command"][-1].removeprefix("max_connections="))
    asking = [name for name, service in services.items() if service["image"].startswith(OURS) and name not in ONCE]
    assert most >= 10 * (len(asking) + 2) + 10  # the shop's worker is three processes; and the operator has some
