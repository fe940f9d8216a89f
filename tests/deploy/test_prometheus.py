"""The configuration of Prometheus and Grafana: scraping, rules and the dashboard."""

import contextlib
import json
import math
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from tests.deploy.alert_stories import STORIES
from tests.deploy.manifests import DEPLOY, REPOSITORY, declared_metrics, exported_metrics
from tests.deploy.programs import needs

RULES = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())
DASHBOARD = json.loads((DEPLOY / "grafana" / "stoa.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
NAME = re.compile(r"\bstoa_\w+\b")
needs_prometheus = needs("promtool", package="prometheus")


def alerts() -> list[dict[str, Any]]:
    return [rule for group in RULES["groups"] for rule in group["rules"]]


def expressions() -> dict[str, str]:
    """Return every query by its place: a panel's title and letter, or an alert."""
    panels = {f"{panel['title']} {target['refId']}": target["expr"] for panel in PANELS for target in panel["targets"]}
    return panels | {rule["alert"]: rule["expr"] for rule in alerts()}


@pytest.mark.parametrize("where", expressions())
def test_a_query_uses_exported_metrics(where: str):
    metrics = set(NAME.findall(expressions()[where]))
    assert metrics or "up{" in expressions()[where]
    assert metrics - exported_metrics() == set()


def test_the_dashboard_shows_every_metric():
    shown = {name for panel in PANELS for target in panel["targets"] for name in NAME.findall(target["expr"])}
    metrics = {re.sub(r"_(bucket|sum|count)$", "", name) if name not in declared_metrics() else name for name in shown}
    assert declared_metrics().keys() - metrics == set()


def test_database_metrics_are_not_summed_over_instances():
    summed = re.compile(r"sum[^(]*\(stoa_(batch_requests|batch_oldest|batches_p|webhook_d|webhook_l|moder|analyt)")
    assert [where for where, expression in expressions().items() if summed.search(expression)] == []


def test_every_scrape_config_has_the_labels_of_the_rules():
    configs = {name: yaml.safe_load((DEPLOY / name / "prometheus.yml").read_text()) for name in ("prometheus", "k8s")}
    jobs = {name: config["scrape_configs"][0] for name, config in configs.items()}
    assert {name: job["job_name"] for name, job in jobs.items()} == dict.fromkeys(jobs, "stoa")  # up{job="stoa"}
    labels = {rule.get("target_label") for rule in jobs["k8s"]["relabel_configs"]}
    assert labels >= {"service", "namespace", "pod"}  # the rules and prometheus-adapter.yaml use these labels
    for listed in ("prometheus", "compose"):
        targets = json.loads((DEPLOY / listed / "targets.json").read_text())
        assert [target["labels"] for target in targets] == [{"service": "commerce"}, {"service": "inference"}]


def test_every_alert_has_a_summary_and_an_action():
    assert len({rule["alert"] for rule in alerts()}) == len(alerts()) > 10
    for rule in alerts():
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"].keys() == {"summary", "action", "runbook"}


def test_every_alert_has_a_runbook():
    runbooks = [rule["annotations"]["runbook"] for rule in alerts()]
    page = REPOSITORY / "docs" / "operator" / "alerts.md"
    assert runbooks == [f"docs/operator/alerts.md#{rule['alert'].lower()}" for rule in alerts()]
    assert [line.removeprefix("## ") for line in page.read_text().splitlines() if line.startswith("## ")] == [
        rule["alert"] for rule in alerts()
    ]


def test_panels_do_not_overlap_and_have_a_title_and_a_description():
    occupied: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        grid = panel["gridPos"]
        cells = {
            (x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not cells & occupied, panel["title"]
        assert max(x for x, _ in cells) < 24
        occupied |= cells
    assert all(panel["title"] and panel["description"] for panel in PANELS)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_panels_use_the_provisioned_data_source():
    source = yaml.safe_load((DEPLOY / "grafana" / "datasources.yml").read_text())["datasources"][0]
    assert {target["datasource"]["uid"] for panel in PANELS for target in panel["targets"]} == {source["uid"]}
    assert {target["legendFormat"] == "" for panel in PANELS for target in panel["targets"]} == {False}


@needs_prometheus
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "rules", "rules.yml"),
        ("check", "config", "--syntax-only", "prometheus.yml"),
        ("test", "rules", "rules.test.yml"),
    ],
    ids=" ".join,
)
def test_promtool_accepts_the_rules_and_the_configuration(arguments: tuple[str, ...]):
    completed = subprocess.run(
        ["promtool", *arguments], cwd=DEPLOY / "prometheus", capture_output=True, text=True, timeout=60
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr


@needs_prometheus
def test_every_alert_fires_in_its_story_and_not_before(tmp_path: Path):
    """One run of promtool: each alert fires once, with its labels, its text and its runbook."""
    tests = [
        story.as_promtool_test(rule["alert"], rule) for rule, story in zip(alerts(), STORIES.values(), strict=True)
    ]
    assert list(STORIES) == [rule["alert"] for rule in alerts()]
    rules = {"rule_files": [str(DEPLOY / "prometheus" / "rules.yml")], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "stories.yml").write_text(yaml.safe_dump(rules))
    completed = subprocess.run(
        ["promtool", "test", "rules", "stories.yml"], cwd=tmp_path, capture_output=True, text=True
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr


@needs_prometheus
def test_promtool_accepts_the_relabeling_of_the_cluster(tmp_path: Path):
    config = yaml.safe_load((DEPLOY / "k8s" / "prometheus.yml").read_text())
    for job in config["scrape_configs"]:
        job.pop("kubernetes_sd_configs")  # Debian builds promtool without Kubernetes discovery
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    completed = subprocess.run(
        ["promtool", "check", "config", "--syntax-only", "prometheus.yml"], cwd=tmp_path, capture_output=True, text=True
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr


@needs_prometheus
def test_promtool_parses_every_query_of_the_dashboard(tmp_path: Path):
    queries = [target["expr"] for panel in PANELS for target in panel["targets"]]
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries)]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    completed = subprocess.run(
        ["promtool", "check", "rules", "rules.yml"], cwd=tmp_path, capture_output=True, text=True
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert f"{len(queries)} rules found" in completed.stdout


LABELS = 'job="stoa",service="inference",instance="a",model="m",route="/",method="GET",outcome="o",limit="l"'
STEP_SECONDS = 20
STEPS = 200  # the longest range of a panel is an hour


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a running Prometheus that has an hour of every metric of Stoa."""
    home = tmp_path_factory.mktemp("prometheus")
    (home / "samples.txt").write_text(openmetrics(now=int(time.time())))
    (home / "prometheus.yml").write_text("{}")
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", "samples.txt", "data"],
        cwd=home,
        check=True,
        capture_output=True,
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [
        "prometheus",
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=data",
        f"--web.listen-address={address}",
    ]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=home, stdout=log, stderr=log)
    try:
        wait_until_ready(f"http://{address}", process, home / "log")
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(20)


def openmetrics(now: int) -> str:
    """Return samples of every time series, one every 20 seconds: counters grow, and answers have both statuses."""
    lines = []
    for name in ["up", *sorted(exported_metrics())]:
        for more in ['le="1"', 'le="+Inf"'] if name.endswith("_bucket") else ['status="200"', 'status="500"']:
            labels = f'{LABELS},finished_reason="stop",{more}'
            lines += [f"{name}{{{labels}}} {STEPS - ago} {now - STEP_SECONDS * ago}" for ago in range(STEPS, -1, -1)]
    return "\n".join([*lines, "# EOF\n"])


def wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        with contextlib.suppress(httpx2.TransportError):
            if httpx2.get(f"{url}/-/ready").status_code == 200:
                return
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


@needs_prometheus
def test_a_running_prometheus_answers_every_query_of_the_dashboard(prometheus: str):
    queries = [target["expr"] for panel in PANELS for target in panel["targets"]]
    with httpx2.Client(base_url=prometheus) as client:
        answers = {query: client.get("/api/v1/query", params={"query": query}).json() for query in queries}
    values = {query: [float(row["value"][1]) for row in answer["data"]["result"]] for query, answer in answers.items()}
    assert [query for query, numbers in values.items() if not numbers or any(map(math.isnan, numbers))] == []
