"""The Kubernetes manifests: each object, and their references to each other."""

from typing import Any

import pytest
import yaml

from tests.deploy.manifests import DEPLOY, FORCED_CLOSE_SECONDS, drain_seconds, image_environment, kubernetes

OBJECTS = kubernetes()
INTERNET = "0.0.0.0/0"


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


@pytest.mark.parametrize("one", OBJECTS, ids=lambda one: f"{one['kind']}-{one['metadata']['name']}")
def test_every_object_is_valid(one: dict[str, Any]):
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    kubernetes_validate.validate(one, "1.30", strict=True)


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


def test_only_the_webhook_sender_may_reach_the_internet():
    policies = of_kind("NetworkPolicy")
    assert policies["nothing"]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    internet_policies = {
        name
        for name, one in policies.items()
        for rule in one["spec"].get("egress", [])
        for to in rule["to"]
        if to.get("ipBlock", {}).get("cidr") == INTERNET
    }
    assert internet_policies == {"webhooks-leave"}
    rule = policies["webhooks-leave"]["spec"]["egress"][0]
    assert [port["port"] for port in rule["ports"]] == [80, 443]
    assert {"10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"} <= set(
        rule["to"][0]["ipBlock"]["except"]
    )
    labels = {name: one["spec"]["template"]["metadata"]["labels"] for name, one in DEPLOYMENTS.items()}
    selector = policies["webhooks-leave"]["spec"]["podSelector"]
    assert [name for name in labels if selects(selector, labels[name])] == ["inference-worker"]
