"""A description job over all products with the built-in model, while the workers of both projects are killed.

It covers the demo's 20 products, or 200 with STOA_TEST_WHOLE=1.
"""

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

TIMEOUT_SECONDS = 180
WHOLE_TIMEOUT_SECONDS = 1200
MAX_PRODUCTS = 200  # in one job
SEED_CATALOG = """
from django.utils import timezone
from commerce.demo.full import seed_catalog
seed_catalog(seed=7, now=timezone.now())
"""
WORKERS = ("commerce.config.celery", "inference.config.celery")
ENDED = ("completed", "cancelled", "failed")


def kill_workers(stoa: RunningStoa, except_for: Collection[str] = ()) -> set[str]:
    """Kill every running worker process with SIGKILL; return which workers. The demo restarts them."""
    killed = set()
    for process in psutil.Process(stoa.pid).children(recursive=True):
        try:
            command = " ".join(process.cmdline())
            for name in set(WORKERS).difference(except_for):
                if name in command:
                    os.kill(process.pid, signal.SIGKILL)
                    killed.add(name)
        except (psutil.NoSuchProcess, ProcessLookupError):
            continue
    return killed


def is_whole() -> bool:
    return os.environ.get("STOA_TEST_WHOLE", "") == "1"


def add_products(stoa: RunningStoa) -> None:
    """Add the 200 products of the full demo data."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("STOA_")}
    for name in ("DATABASE_URL", "REDIS_URL"):
        kept.pop(name, None)
    home = {"STOA_HOME": str(stoa.run_dir.parent.parent), "DJANGO_SETTINGS_MODULE": "commerce.config.settings.base"}
    command = [sys.executable, "manage_commerce.py", "shell", "-v", "0", "-c", SEED_CATALOG]
    subprocess.run(command, cwd=CHECKOUT, env=kept | home, check=True)


def product_ids(shop: httpx2.Client) -> list[int]:
    """Return the ids of as many products as a job may have."""
    pages = (shop.get("/products", params={"limit": 100, "page": page}).json()["data"] for page in (1, 2))
    return [product["id"] for products in pages for product in products][:MAX_PRODUCTS]


def drafts_of(shop: httpx2.Client, job: int) -> list[dict[str, Any]]:
    query = {"job_id": job, "limit": 100}
    pages = (shop.get("/description-drafts", params=query | {"page": page}).json()["data"] for page in (1, 2))
    return [draft for drafts in pages for draft in drafts]


def eventually(read: Callable[[], Any], condition: Callable[[Any], bool]) -> Any:
    """Return the first value that meets the condition."""
    deadline = time.monotonic() + (WHOLE_TIMEOUT_SECONDS if is_whole() else TIMEOUT_SECONDS)
    while not condition(value := read()):
        assert time.monotonic() < deadline, value
        time.sleep(0.2)
    return value


@pytest.mark.timeout(3600 if is_whole() else 600)
def test_every_product_gets_one_draft_while_workers_are_killed(stoa: RunningStoa):
    if is_whole():
        add_products(stoa)
    headers = {"Authorization": f"Bearer {stoa.login('SUPER_ADMIN')}"}
    with (
        httpx2.Client(base_url=f"{stoa.commerce_url}/api", headers=headers, timeout=60) as shop,
        httpx2.Client(base_url=stoa.inference_url, headers=stoa.headers(), timeout=60) as server,
    ):
        products = product_ids(shop)
        assert len(products) == MAX_PRODUCTS or not is_whole()
        response = shop.post("/description-jobs", json={"product_ids": products, "tone": "friendly", "max_words": 40})
        assert response.status_code == 201, response.text
        path = f"/description-jobs/{response.json()['id']}"
        killed: set[str] = set()
        eventually(lambda: killed.update(kill_workers(stoa, killed)), lambda _: len(killed) == len(WORKERS))
        eventually(lambda: shop.get(path).json(), lambda job: job["state"] != "waiting")
        kill_workers(stoa)  # a second time, once the job runs

        job = eventually(lambda: shop.get(path).json(), lambda job: job["state"] in ENDED)
        assert (job["state"], job["written"], job["failed"]) == ("completed", len(products), 0)
        drafts = drafts_of(shop, job["id"])
        assert sorted(draft["product_id"] for draft in drafts) == sorted(products)
        assert all(draft["text"] for draft in drafts)

        webhooks = {webhook["url"]: webhook for webhook in server.get("/webhooks").json()["webhooks"]}
        webhook = webhooks[f"{stoa.commerce_url}/api/descriptions/webhook"]
        deliveries = eventually(
            lambda: server.get(f"/webhooks/{webhook['id']}/deliveries").json()["deliveries"],
            lambda rows: any(row["state"] == "delivered" for row in rows),
        )
        assert len(deliveries) == 1
