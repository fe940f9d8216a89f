"""The Compose file: all of Stoa in containers on one machine."""

import json
import re
from typing import Any

import pytest

from tests.deploy.manifests import DEPLOY, FORCED_CLOSE_SECONDS, compose, compose_variables, drain_seconds, instructions

VARIABLES = dict.fromkeys(compose_variables(), "/value")
OWN_IMAGES = ("stoa/commerce", "stoa/inference")
ONE_SHOT = {"commerce-migrate", "inference-migrate", "models"}


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = compose(VARIABLES)["services"]
    return found


def command_of(service: dict[str, Any]) -> str:
    """Return the container's command: its own, or its image's."""
    if "command" in service:
        return " ".join(service["command"])
    image = re.sub(r"^stoa/([\w-]+):.*", r"\1", service["image"])
    return " ".join(json.loads(dict(instructions(DEPLOY / "docker" / f"{image}.Dockerfile"))["CMD"]))


def test_the_compose_file_matches_the_compose_specification():
    schemas = pytest.importorskip("check_jsonschema.builtin_schemas")
    jsonschema = pytest.importorskip("jsonschema")
    schema = schemas.get_builtin_schema("vendor.compose-spec")
    jsonschema.validate(compose(VARIABLES), schema)


@pytest.mark.parametrize("name", sorted(name for name, required in compose_variables().items() if required))
def test_a_required_variable_that_is_missing_is_an_error(name: str):
    with pytest.raises(KeyError, match=name):
        compose(VARIABLES | {name: ""})


def test_volumes_and_networks_are_declared(services: dict[str, Any]):
    declared = compose(VARIABLES)
    for name, service in services.items():
        mounted = {volume.split(":")[0] for volume in service.get("volumes", []) if isinstance(volume, str)}
        assert {source for source in mounted if source[0] not in "./"} <= declared["volumes"].keys(), name
        assert set(service.get("networks", [])) <= declared["networks"].keys(), name
        for other in service.get("depends_on", []):
            assert other in services


def test_mounted_files_exist(services: dict[str, Any]):
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


def test_containers_have_a_read_only_image_and_no_privileges(services: dict[str, Any]):
    for name, service in services.items():
        assert "no-new-privileges:true" in service["security_opt"], name
        if name != "postgres":
            assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"]), name


def test_every_image_is_pinned_to_a_version(services: dict[str, Any]):
    for name, service in services.items():
        if name != "model-host":  # the operator names it
            assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+[\w.-]*", service["image"]), name


def test_the_stop_grace_period_is_longer_than_the_drain(services: dict[str, Any]):
    drains = {}
    for name, service in services.items():
        if service["image"].startswith(OWN_IMAGES) and "serve" in command_of(service):
            drains[name] = drain_seconds(command_of(service))
            assert float(service["stop_grace_period"][:-1]) > drains[name] + FORCED_CLOSE_SECONDS
    assert drains.keys() == {"commerce-web-1", "commerce-web-2", "inference-web-1", "inference-web-2"}


def test_only_services_that_send_or_download_reach_the_internet(services: dict[str, Any]):
    networks = compose(VARIABLES)["networks"]
    closed = {name for name, network in networks.items() if network and network.get("internal")}
    connected = {name for name, service in services.items() if set(service.get("networks", ["default"])) - closed}
    assert services["model-host"]["network_mode"] == "none"
    assert connected - {"model-host"} == {
        "commerce-web-1", "commerce-web-2", "commerce-worker", "inference-worker", "models", "nginx", "grafana",
    }  # fmt: skip


def test_only_nginx_publishes_public_ports(services: dict[str, Any]):
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert published == {"nginx": ["80:80", "443:443"], "grafana": ["127.0.0.1:3000:3000"]}


def test_nginx_and_prometheus_name_existing_services_and_ports(services: dict[str, Any]):
    ports = {"commerce-web": "8000", "inference-web": "8001"}
    servers = re.findall(r"server ([\w-]+):(\d+) resolve", (DEPLOY / "compose" / "upstreams.conf").read_text())
    assert [(name, ports[name[:-2]]) for name, _ in servers] == servers
    assert {name for name, _ in servers} <= services.keys()
    targets = json.loads((DEPLOY / "compose" / "targets.json").read_text())
    scraped = dict(target.split(":") for group in targets for target in group["targets"])
    assert scraped == ports
    for name in services:
        if name.endswith(("web-1", "web-2")):
            assert services[name]["networks"]["front"]["aliases"] == [name[:-2]]
            assert name[:-2] in services[name]["environment"]["STOA_ALLOWED_HOSTS"].split(",")


def test_max_connections_covers_all_connection_pools(services: dict[str, Any]):
    max_connections = int(services["postgres"]["command"][-1].removeprefix("max_connections="))
    clients = [
        name for name, service in services.items() if service["image"].startswith(OWN_IMAGES) and name not in ONE_SHOT
    ]
    assert (
        max_connections >= 10 * (len(clients) + 2) + 10
    )  # the shop's worker is three processes; 10 are the operator's
