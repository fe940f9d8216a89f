"""The operator's dashboard: Prometheus scrapes both projects in use, and every panel has data.

Grafana is not needed: it would send the same queries to the same Prometheus.
"""

import asyncio
import json
import math
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect

from shared.serving.processes.child_processes import die_with_parent
from tests.running_stoa import CHECKOUT, RunningStoa

MODEL = "stoa-describer"
FOLDER = CHECKOUT / "deploy" / "prometheus"
PANELS = [
    panel
    for panel in json.loads((CHECKOUT / "deploy" / "grafana" / "stoa.json").read_text())["panels"]
    if panel["type"] != "row"
]
TIMEOUT_SECONDS = 120.0


def generate_traffic(stoa: RunningStoa, bearer: dict[str, str]) -> None:
    """Send requests of every kind that the metrics count."""
    body = {"model": MODEL, "prompt": "The Brunvale Teapot is", "max_tokens": 20}
    with httpx2.Client(base_url=stoa.inference_url, headers=stoa.headers(), timeout=60) as models:
        for _ in range(2):
            assert models.post("/inference", json=body).status_code == 200
            assert models.post("/inference/stream", json=body).status_code == 200
        vectors = {"model": "stoa-encoder", "input": ["a lamp"]}
        assert models.post("/v1/embeddings", json=vectors).status_code == 200
        requests = [{"id": str(number), "prompt": f"Lamp {number} is"} for number in range(3)]
        assert models.post("/batch", json={"model": MODEL, "requests": requests, "max_tokens": 5}).status_code == 200
    asyncio.run(use_the_websocket(stoa, body))
    with httpx2.Client(base_url=stoa.commerce_url, timeout=60) as shop:
        assert shop.get("/api/products").status_code == 200
        product = {"product_name": "Brunvale Teapot", "keywords": ["hand-glazed"]}
        assert shop.post("/api/generate-descriptions", json=product, headers=bearer).status_code == 200


def exceed_a_rate_limit(stoa: RunningStoa) -> None:
    """Request more password emails than the limit permits."""
    with httpx2.Client(timeout=60) as client:
        body = {"email": "nobody@example.com"}
        responses = [client.post(f"{stoa.commerce_url}/api/forget-password", json=body) for _ in range(11)]
    assert responses[-1].status_code == 429


async def use_the_websocket(stoa: RunningStoa, body: dict[str, Any]) -> None:
    async with connect(stoa.inference_url.replace("http", "ws") + "/ws", proxy=None) as client:
        await client.send(json.dumps({"type": "auth", "token": stoa.api_key}))
        await client.send(json.dumps(body | {"type": "inference", "id": "a"}))
        while json.loads(await client.recv())["type"] != "complete":
            pass


@pytest.fixture
def prometheus(stoa: RunningStoa, tmp_path: Path) -> Iterator[str]:
    """Run Prometheus with the deployed configuration, but scraping every second; yield its URL."""
    binary = shutil.which("prometheus")
    if binary is None:
        reason = "Prometheus is not installed here. To run this: apt-get install prometheus."
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    config = (FOLDER / "prometheus.yml").read_text().replace("15s", "1s").replace("10s", "1s")
    (tmp_path / "prometheus.yml").write_text(config)
    shutil.copy(FOLDER / "rules.yml", tmp_path)
    (tmp_path / "stoa.key").write_text(stoa.api_key)
    targets = json.loads((FOLDER / "targets.json").read_text())
    for target, url in zip(targets, (stoa.commerce_url, stoa.inference_url), strict=True):
        target["targets"] = [url.removeprefix("http://")]
    (tmp_path / "targets.json").write_text(json.dumps(targets))
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    options = [f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [binary, *options, f"--web.listen-address={address}"],
            stdout=log,
            stderr=log,
            preexec_fn=die_with_parent(),
        )
    yield f"http://{address}"
    process.terminate()
    assert process.wait(60) == 0, (tmp_path / "log").read_text()


def query_values(prometheus: str, query: str) -> list[float]:
    """Return the current finite values of all series of a query, as Grafana would show them."""
    try:
        response = httpx2.get(f"{prometheus}/api/v1/query", params={"query": query}, timeout=10)
    except httpx2.HTTPError:  # Prometheus is still starting
        return []
    if response.status_code != 200:
        return []
    numbers = [float(series["value"][1]) for series in response.json()["data"]["result"]]
    return [number for number in numbers if math.isfinite(number)]


@pytest.mark.timeout(600)
def test_every_panel_of_the_dashboard_has_data(stoa: RunningStoa, prometheus: str):
    queries = {f"{panel['title']}: {target['expr']}" for panel in PANELS for target in panel["targets"]}
    bearer = {"Authorization": f"Bearer {stoa.login('STORE_OWNER')}"}
    exceed_a_rate_limit(stoa)
    missing, deadline = set(queries), time.monotonic() + TIMEOUT_SECONDS
    while missing and time.monotonic() < deadline:
        generate_traffic(stoa, bearer)  # a rate needs requests between two scrapes
        time.sleep(2)
        missing = {query for query in missing if not query_values(prometheus, query.partition(": ")[2])}

    assert missing == set()
    assert query_values(prometheus, 'sum(up{job="stoa"})') == [2.0]
    # The demo also loads all-MiniLM-L6-v2, and SmolLM2-135M-Instruct with stoa-writer, where their packages can be had.
    assert query_values(prometheus, "sum(stoa_model_loaded)") in ([2.0], [3.0], [4.0], [5.0])
    assert query_values(prometheus, 'sum(stoa_generation_tokens_total{model="stoa-describer"})')[0] >= 40
