"""Descriptions of all products at once, by our own model, while the workers of both sides are killed."""

import os
import signal
import time
from collections.abc import Callable, Collection
from typing import Any

import httpx2
import psutil
import pytest

from tests.running_stoa import RunningStoa

LIMIT_S = 180
WORKERS = ("commerce.config.celery", "inference.config.celery")
ENDED = ("completed", "cancelled", "failed")


def kill_workers(stoa: RunningStoa, spared: Collection[str] = ()) -> set[str]:
    """kill -9 for every worker process there is just now; answers whose. They are started again by themselves."""
    killed = set()
    for process in psutil.Process(stoa.pid).children(recursive=True):
        try:
            command = " ".join(process.cmdline())
            for name in set(WORKERS).difference(spared):
                if name in command:
                    os.kill(process.pid, signal.SIGKILL)
                    killed.add(name)
        except (psutil.NoSuchProcess, ProcessLookupError):
            continue
    return killed


def eventually(look: Callable[[], Any], is_so: Callable[[Any], bool]) -> Any:
    """What there is to be seen once it is so."""
    deadline = time.monotonic() + LIMIT_S
    while not is_so(seen := look()):
        assert time.monotonic() < deadline, seen
        time.sleep(0.2)
    return seen


@pytest.mark.timeout(600)
def test_every_product_gets_one_draft_though_the_workers_are_killed(stoa: RunningStoa):
    headers = {"Authorization": f"Bearer {stoa.login('SUPER_ADMIN')}"}
    with (
        httpx2.Client(base_url=f"{stoa.commerce_url}/api", headers=headers, timeout=60) as shop,
        httpx2.Client(base_url=stoa.inference_url, headers=stoa.headers(), timeout=60) as server,
    ):
        products = [product["id"] for product in shop.get("/products", params={"limit": 100}).json()["data"]]
        asked = shop.post("/description-jobs", json={"product_ids": products, "tone": "friendly", "max_words": 40})
        assert asked.status_code == 201, asked.text
        path = f"/description-jobs/{asked.json()['id']}"
        killed: set[str] = set()
        eventually(lambda: killed.update(kill_workers(stoa, killed)), lambda _: len(killed) == len(WORKERS))
        eventually(lambda: shop.get(path).json(), lambda job: job["state"] != "waiting")
        kill_workers(stoa)  # once more, those that are there

        job = eventually(lambda: shop.get(path).json(), lambda job: job["state"] in ENDED)
        assert (job["state"], job["written"], job["failed"]) == ("completed", len(products), 0)
        drafts = shop.get("/description-drafts", params={"job_id": job["id"], "limit": 100}).json()["data"]
        assert sorted(draft["product_id"] for draft in drafts) == sorted(products)
        assert all(draft["text"] for draft in drafts)

        webhook = server.get("/webhooks").json()["webhooks"][0]
        assert webhook["url"] == f"{stoa.commerce_url}/api/descriptions/webhook"
        told = eventually(
            lambda: server.get(f"/webhooks/{webhook['id']}/deliveries").json()["deliveries"],
            lambda deliveries: any(delivery["state"] == "delivered" for delivery in deliveries),
        )
        assert len(told) == 1
