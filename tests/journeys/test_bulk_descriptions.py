"""Descriptions of all products at once, by our own model, while the workers of both sides are killed: of the demo's
twenty, or with STOA_TEST_WHOLE=1 of two hundred."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from typing import Any

import httpx2
import psutil
import pytest

from tests.running_stoa import CHECKOUT, RunningStoa

LIMIT_S = 180
WHOLE_LIMIT_S = 1200
MOST = 200  # of a job
GOODS = """
from django.utils import timezone
from commerce.demo.full import seed_catalog
seed_catalog(seed=7, now=timezone.now())
"""
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


def is_whole() -> bool:
    return os.environ.get("STOA_TEST_WHOLE", "") == "1"


def add_goods(stoa: RunningStoa) -> None:
    """All two hundred products of the demo, in place of its first twenty."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STOA_")}
    for name in ("DATABASE_URL", "REDIS_URL"):
        kept.pop(name, None)
    home = {"STOA_HOME": str(stoa.run_dir.parent.parent), "DJANGO_SETTINGS_MODULE": "commerce.config.settings.base"}
    command = [sys.executable, "manage_commerce.py", "shell", "-v", "0", "-c", GOODS]
    subprocess.run(command, cwd=CHECKOUT, env=kept | home, check=True)


def product_ids(shop: httpx2.Client) -> list[int]:
    """Of as many products as a job may have."""
    pages = (shop.get("/products", params={"limit": 100, "page": page}).json()["data"] for page in (1, 2))
    return [product["id"] for products in pages for product in products][:MOST]


def drafts_of(shop: httpx2.Client, job: int) -> list[dict[str, Any]]:
    query = {"job_id": job, "limit": 100}
    pages = (shop.get("/description-drafts", params=query | {"page": page}).json()["data"] for page in (1, 2))
    return [draft for drafts in pages for draft in drafts]


def eventually(look: Callable[[], Any], is_so: Callable[[Any], bool]) -> Any:
    """What there is to be seen once it is so."""
    deadline = time.monotonic() + (WHOLE_LIMIT_S if is_whole() else LIMIT_S)
    while not is_so(seen := look()):
        assert time.monotonic() < deadline, seen
        time.sleep(0.2)
    return seen


@pytest.mark.timeout(3600 if is_whole() else 600)
def test_every_product_gets_one_draft_though_the_workers_are_killed(stoa: RunningStoa):
    if is_whole():
        add_goods(stoa)
    headers = {"Authorization": f"Bearer {stoa.login('SUPER_ADMIN')}"}
    with (
        httpx2.Client(base_url=f"{stoa.commerce_url}/api", headers=headers, timeout=60) as shop,
        httpx2.Client(base_url=stoa.inference_url, headers=stoa.headers(), timeout=60) as server,
    ):
        products = product_ids(shop)
        assert len(products) == MOST or not is_whole()
        asked = shop.post("/description-jobs", json={"product_ids": products, "tone": "friendly", "max_words": 40})
        assert asked.status_code == 201, asked.text
        path = f"/description-jobs/{asked.json()['id']}"
        killed: set[str] = set()
        eventually(lambda: killed.update(kill_workers(stoa, killed)), lambda _: len(killed) == len(WORKERS))
        eventually(lambda: shop.get(path).json(), lambda job: job["state"] != "waiting")
        kill_workers(stoa)  # once more, those that are there

        job = eventually(lambda: shop.get(path).json(), lambda job: job["state"] in ENDED)
        assert (job["state"], job["written"], job["failed"]) == ("completed", len(products), 0)
        drafts = drafts_of(shop, job["id"])
        assert sorted(draft["product_id"] for draft in drafts) == sorted(products)
        assert all(draft["text"] for draft in drafts)

        webhook = server.get("/webhooks").json()["webhooks"][0]
        assert webhook["url"] == f"{stoa.commerce_url}/api/descriptions/webhook"
        told = eventually(
            lambda: server.get(f"/webhooks/{webhook['id']}/deliveries").json()["deliveries"],
            lambda deliveries: any(delivery["state"] == "delivered" for delivery in deliveries),
        )
        assert len(told) == 1
