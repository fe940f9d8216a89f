"""What Prometheus and Grafana are told to look at."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.manifests import DEPLOY, declared_metrics, told_metrics

RULES = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())
DASHBOARD = json.loads((DEPLOY / "grafana" / "stoa.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
NAME = re.compile(r"\bstoa_\w+\b")
needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed here")


def alerts() -> list[dict[str, Any]]:
    return [rule for group in RULES["groups"] for rule in group["rules"]]


def expressions() -> dict[str, str]:
    """Every query, by where it stands."""
    panels = {f"{panel['title']} {target['refId']}": target["expr"] for panel in PANELS for target in panel["targets"]}
    return panels | {rule["alert"]: rule["expr"] for rule in alerts()}


@pytest.mark.parametrize("where", expressions())
def test_a_query_asks_for_what_is_told(where: str):
    asked = set(NAME.findall(expressions()[where]))
    assert asked or "up{" in expressions()[where]
    assert asked - told_metrics() == set()


def test_the_dashboard_shows_every_metric():
    shown = {name for panel in PANELS for target in panel["targets"] for name in NAME.findall(target["expr"])}
    whole = {re.sub(r"_(bucket|sum|count)$", "", name) if name not in declared_metrics() else name for name in shown}
    assert declared_metrics().keys() - whole == set()


def test_what_each_machine_tells_of_the_database_is_not_added_up():
    of_the_database = re.compile(
        r"sum[^(]*\(stoa_(batch_requests|batch_oldest|batches_p|webhook_d|webhook_l|moder|analyt)"
    )
    assert [where for where, expression in expressions().items() if of_the_database.search(expression)] == []


def test_every_prometheus_asks_as_the_rules_want_it():
    asks = {name: yaml.safe_load((DEPLOY / name / "prometheus.yml").read_text()) for name in ("prometheus", "k8s")}
    jobs = {name: config["scrape_configs"][0] for name, config in asks.items()}
    assert {name: job["job_name"] for name, job in jobs.items()} == dict.fromkeys(jobs, "stoa")  # up{job="stoa"}
    labels = {rule.get("target_label") for rule in jobs["k8s"]["relabel_configs"]}
    assert labels >= {"service", "namespace", "pod"}  # those of the rules, and of prometheus-adapter.yaml
    for listed in ("prometheus", "compose"):
        targets = json.loads((DEPLOY / listed / "targets.json").read_text())
        assert [target["labels"] for target in targets] == [{"service": "commerce"}, {"service": "inference"}]


def test_every_alert_says_what_is_wrong_and_what_to_do():
    assert len({rule["alert"] for rule in alerts()}) == len(alerts()) > 10
    for rule in alerts():
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert rule["annotations"].keys() == {"summary", "action"}


def test_panels_do_not_overlap_and_all_have_words():
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert all(panel["title"] and panel["description"] for panel in PANELS)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_grafana_finds_the_dashboard_and_its_data():
    source = yaml.safe_load((DEPLOY / "grafana" / "datasources.yml").read_text())["datasources"][0]
    assert {target["datasource"]["uid"] for panel in PANELS for target in panel["targets"]} == {source["uid"]}
    assert {target["legendFormat"] == "" for panel in PANELS for target in panel["targets"]} == {False}


@needs_promtool
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "rules", "rules.yml"),
        ("check", "config", "--syntax-only", "prometheus.yml"),
        ("test", "rules", "rules.test.yml"),
    ],
    ids=" ".join,
)
def test_promtool_finds_nothing_wrong(arguments: tuple[str, ...]):
    done = subprocess.run(
        ["promtool", *arguments], cwd=DEPLOY / "prometheus", capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_promtool_finds_nothing_wrong_with_what_the_clusters_prometheus_does_to_labels(tmp_path: Path):
    config = yaml.safe_load((DEPLOY / "k8s" / "prometheus.yml").read_text())
    for job in config["scrape_configs"]:
        job.pop("kubernetes_sd_configs")  # which Debian's build has left out
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    done = subprocess.run(
        ["promtool", "check", "config", "--syntax-only", "prometheus.yml"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs_promtool
def test_promtool_reads_every_query_of_the_dashboard(tmp_path: Path):
    queries = [target["expr"] for panel in PANELS for target in panel["targets"]]
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries)]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", "rules.yml"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(queries)} rules found" in done.stdout
