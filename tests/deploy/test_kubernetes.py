"""The Kubernetes manifests: each object, and their references to each other."""

import tomllib
from ipaddress import ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from commerce.attachments.uploads.antivirus import DEFAULT_PORT as CLAMAV_PORT
from tests.deploy.manifests import (
    DEPLOY,
    FORCED_CLOSE_SECONDS,
    REPOSITORY,
    drain_seconds,
    image_environment,
    kubernetes,
)

OBJECTS = kubernetes()
KUBERNETES_VERSIONS = ("1.30", "1.37")  # the oldest that kustomization.yaml names, and the newest with a schema


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in OBJECTS if one["kind"] == kind}


DEPLOYMENTS = of_kind("Deployment")
PODS: dict[str, dict[str, Any]] = {
    name: one["spec"]["template"]["spec"] for name, one in (DEPLOYMENTS | of_kind("Job")).items()
}


def containers(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in pod.get("initContainers", []) + pod["containers"]}


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    expressions = selector.get("matchExpressions", [])
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        labels.get(one["key"]) in one["values"] for one in expressions
    )


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
@pytest.mark.parametrize("one", OBJECTS, ids=lambda one: f"{one['kind']}-{one['metadata']['name']}")
def test_every_rendered_object_is_valid(one: dict[str, Any], version: str):
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    kubernetes_validate.validate(one, version, strict=True)


def test_objects_are_rendered_with_the_namespace_the_label_and_the_version():
    assert {one["metadata"]["namespace"] for one in OBJECTS} == {"stoa"}
    without_label = [one["kind"] for one in OBJECTS if "labels" not in one["metadata"]]
    assert without_label == ["Job"]
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    images = {container["image"] for pod in PODS.values() for container in containers(pod).values()}
    assert images == {f"stoa/commerce:{version}", f"stoa/inference:{version}", f"stoa/model-host:{version}-cpu"}


@pytest.mark.parametrize("name", PODS)
def test_a_pod_has_the_least_privileges(name: str):
    pod = PODS[name]
    context = pod["securityContext"]
    assert (context["runAsNonRoot"], context["runAsUser"]) == (True, 10001)
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    tokenless = {
        one for one, account in of_kind("ServiceAccount").items() if not account["automountServiceAccountToken"]
    }
    assert pod.get("serviceAccountName") in tokenless or pod["automountServiceAccountToken"] is False
    for container in containers(pod).values():
        alone = container["securityContext"]
        assert (alone["allowPrivilegeEscalation"], alone["readOnlyRootFilesystem"]) == (False, True)
        assert alone["capabilities"] == {"drop": ["ALL"]}
        assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
        assert "memory" in container["resources"]["limits"]
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted <= {volume["name"] for volume in pod["volumes"]}
        assert "tmp" in mounted


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_every_deployment_has_liveness_and_readiness_probes(name: str):
    serving = [one for one in PODS[name]["containers"] if "serve" in one["args"]]
    assert len(serving) == 1
    assert serving[0]["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "http"}
    assert serving[0]["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
    port = serving[0]["args"][serving[0]["args"].index("--port") + 1]
    assert serving[0]["ports"] == [{"name": "http", "containerPort": int(port)}]
    hosts = {one["name"]: one.get("value") for one in serving[0]["env"]}["STOA_ALLOWED_HOSTS"]
    assert "$(POD_IP)" in hosts.split(",")  # the kubelet and Prometheus address the pod by its IP


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_the_termination_grace_period_is_longer_than_the_drain(name: str):
    for container in PODS[name]["containers"]:
        if "serve" in container["args"]:
            pre_stop = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
            needed = pre_stop + drain_seconds(container["args"]) + FORCED_CLOSE_SECONDS
            assert PODS[name]["terminationGracePeriodSeconds"] > needed
    if name.endswith("-web"):
        assert pre_stop >= 5


def test_servers_and_workers_share_a_socket_folder_with_their_model_host():
    run_dir = image_environment(DEPLOY / "docker" / "inference.Dockerfile")["STOA_RUN_DIR"]
    for name in ("inference-web", "inference-worker"):
        for container in containers(PODS[name]).values():
            folders = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
            assert run_dir.startswith(folders["sockets"] + "/")
            assert folders["models"] == "/data/models"
        host = containers(PODS[name])["model-host"]
        assert host["restartPolicy"] == "Always"  # a sidecar: it ends after its clients
        assert "env" not in host
        assert "envFrom" not in host  # no secrets where models run


def test_pods_with_models_read_the_claim_of_models_which_another_pod_can_write():
    claim = of_kind("PersistentVolumeClaim")["models"]["spec"]
    assert claim["accessModes"] == ["ReadWriteMany"]
    for name in MODEL_SERVER:
        volumes = {volume["name"]: volume for volume in PODS[name]["volumes"]}
        assert volumes["models"]["persistentVolumeClaim"] == {"claimName": "models"}
        for container in containers(PODS[name]).values():
            [mount] = [mount for mount in container["volumeMounts"] if mount["name"] == "models"]
            assert (mount["mountPath"], mount["readOnly"]) == ("/data/models", True)
    claimed = {
        volume["persistentVolumeClaim"]["claimName"]
        for pod in PODS.values()
        for volume in pod["volumes"]
        if "persistentVolumeClaim" in volume
    }
    assert claimed <= of_kind("PersistentVolumeClaim").keys()


def test_the_pod_of_the_manual_that_writes_models_is_admitted_and_mounts_the_claim():
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    page = (REPOSITORY / "docs" / "operator" / "install.md").read_text()
    pod = yaml.safe_load(page.partition("<<'EOF'\n")[2].partition("EOF\n")[0])
    for version in KUBERNETES_VERSIONS:
        kubernetes_validate.validate(pod, version, strict=True)
    [container] = pod["spec"]["containers"]
    context = PODS["inference-web"]["securityContext"]
    assert pod["spec"]["securityContext"] == {name: context[name] for name in context if name != "fsGroupChangePolicy"}
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert container["volumeMounts"] == [{"name": "models", "mountPath": "/data/models"}]
    assert pod["spec"]["volumes"] == [{"name": "models", "persistentVolumeClaim": {"claimName": "models"}}]


def test_budgets_autoscalers_and_services_select_their_pods():
    labels = {name: one["spec"]["template"]["metadata"]["labels"] for name, one in DEPLOYMENTS.items()}
    budgets = of_kind("PodDisruptionBudget").values()
    assert [[name for name in labels if selects(one["spec"]["selector"], labels[name])] for one in budgets] == [
        [one["metadata"]["name"]] for one in budgets
    ]
    assert {one["metadata"]["name"] for one in budgets} == DEPLOYMENTS.keys()
    for one in of_kind("HorizontalPodAutoscaler").values():
        assert (
            "replicas" not in DEPLOYMENTS[one["spec"]["scaleTargetRef"]["name"]]["spec"]
        )  # each `kubectl apply` would reset the autoscaler's number
    for name, one in of_kind("Service").items():
        assert [found for found in labels if selects({"matchLabels": one["spec"]["selector"]}, labels[found])] == [
            f"{name}-web"
        ]
        assert one["spec"]["ports"][0]["targetPort"] == "http"


def test_autoscalers_use_the_metrics_of_the_adapter():
    adapter = yaml.safe_load((DEPLOY / "k8s" / "prometheus-adapter.yaml").read_text())["rules"]
    provided = {
        kind: {rule["seriesQuery"].partition("{")[0] for rule in adapter[kind]} for kind in ("custom", "external")
    }
    metrics = [metric for one in of_kind("HorizontalPodAutoscaler").values() for metric in one["spec"]["metrics"]]
    assert {metric["pods"]["metric"]["name"] for metric in metrics if metric["type"] == "Pods"} == provided["custom"]
    assert {metric["external"]["metric"]["name"] for metric in metrics if metric["type"] == "External"} == provided[
        "external"
    ]


SHOP = {"commerce-web", "commerce-worker"}
MODEL_SERVER = {"inference-web", "inference-worker"}
WORKERS = {"commerce-worker", "inference-worker"}
ALL = SHOP | MODEL_SERVER
INTERNET, PRIVATE, CLOUD_METADATA = "203.0.113.7", "10.77.0.13", "169.254.169.254"
S3_PORT = urlsplit(of_kind("ConfigMap")["stoa"]["data"]["STOA_S3_ENDPOINT"]).port
EGRESS: list[tuple[str, int | None, set[str]]] = [
    # destination: an address or a namespace; port; the deployments whose pods may connect
    ("kube-system", 53, {*ALL, "migrate"}),
    (PRIVATE, 5432, {*ALL, "migrate"}),
    (PRIVATE, 6379, {*ALL, "migrate"}),  # Redis
    (PRIVATE, 5672, {*ALL, "migrate"}),  # RabbitMQ
    (PRIVATE, 4318, {*ALL, "migrate"}),  # a collector of traces
    (PRIVATE, S3_PORT, {*ALL, "migrate"}),
    (PRIVATE, 465, SHOP),
    (PRIVATE, 587, SHOP),
    (PRIVATE, CLAMAV_PORT, SHOP),
    ("ingress", 443, ALL),  # STOA_DESCRIPTIONS_BASE_URL, STOA_SHOP_URL, and pool members behind the ingress
    *((PRIVATE, port, MODEL_SERVER) for port in (443, 8000, 8001, 8080, 11434, 30000)),  # members of pools
    ("models", 8000, MODEL_SERVER),
    (INTERNET, 80, WORKERS),  # webhooks
    (INTERNET, 443, WORKERS),
    (INTERNET, 25, set()),
    (INTERNET, 8000, set()),
    (PRIVATE, 80, set()),
    (PRIVATE, 22, set()),
    ("172.16.0.1", 80, set()),
    ("192.168.0.1", 443, set()),
    ("127.0.0.1", 80, set()),
    (CLOUD_METADATA, 80, set()),
    ("default", 443, set()),
]


def matches(peer: dict[str, Any], place: str) -> bool:
    """Return whether a rule's peer includes this address or namespace."""
    assert peer.keys() in ({"ipBlock"}, {"namespaceSelector"})  # those of our policies
    if "namespaceSelector" in peer:
        return selects(peer["namespaceSelector"], {"kubernetes.io/metadata.name": place})
    if not place[0].isdigit():
        return False
    networks = [peer["ipBlock"]["cidr"], *peer["ipBlock"].get("except", [])]
    includes, *excludes = (ip_address(place) in ip_network(network) for network in networks)
    return includes and not any(excludes)


def permitted(direction: str, peers: str, place: str, port: int | str | None) -> set[str]:
    """Return the deployments and jobs whose pods may connect to the place, or be connected to from it."""
    labels = {
        name: one["spec"]["template"]["metadata"]["labels"] for name, one in (DEPLOYMENTS | of_kind("Job")).items()
    }
    found = set()
    for policy in (one["spec"] for one in of_kind("NetworkPolicy").values()):
        for rule in policy.get(direction, []):
            if "ports" in rule and port not in [one["port"] for one in rule["ports"]]:
                continue
            if any(matches(peer, place) for peer in rule[peers]):
                found |= {name for name in labels if selects(policy["podSelector"], labels[name])}
    return found


def test_nothing_is_permitted_without_a_rule():
    assert of_kind("NetworkPolicy")["nothing"]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for one in of_kind("NetworkPolicy").values():  # a direction without a type has no effect
        directions = {direction for direction in ("ingress", "egress") if direction in one["spec"]}
        assert directions <= {kind.lower() for kind in one["spec"]["policyTypes"]}


@pytest.mark.parametrize(("place", "port", "expected"), EGRESS)
def test_pods_reach_what_they_use_and_nothing_else(place: str, port: int, expected: set[str]):
    assert permitted("egress", "to", place, port) == expected


def test_only_workers_reach_the_internet():
    everywhere = [
        name
        for name, one in of_kind("NetworkPolicy").items()
        for rule in one["spec"].get("egress", [])
        for peer in rule["to"]
        if matches(peer, INTERNET)
    ]
    assert everywhere == ["webhooks-leave"]
    assert permitted("egress", "to", INTERNET, 443) == WORKERS


def test_pods_are_reached_by_the_ingress_and_by_prometheus():
    assert permitted("ingress", "from", "ingress", "http") == {"commerce-web", "inference-web"}
    assert permitted("ingress", "from", "monitoring", "http") == {*ALL, "migrate"}
    for place in ("default", "models", PRIVATE, INTERNET):
        assert permitted("ingress", "from", place, "http") == set()
