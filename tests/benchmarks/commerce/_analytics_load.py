"""Sixteen writers of orders and sixteen readers of analytics on the shop of `_analytics_shop`, during aggregation.

Prints JSON; fails if a request fails, or if a figure is wrong at the end.
"""

import gc
import json
import multiprocessing
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "commerce.config.settings.test")
PROCESSES, THREADS, SECONDS = 4, 4, 15  # of readers, and of writers, in each process


def work(queue: Any) -> None:
    """Run the readers and writers of one process, and put the durations of their requests on the queue."""
    import django

    django.setup()
    from django.db import connection
    from django.test import Client
    from django.utils import timezone

    from commerce.catalog.models import Product
    from shared.accounts.models import User
    from shared.accounts.services import create_api_key

    durations: dict[str, list[float]] = {"reads": [], "writes": []}
    failures: list[str] = []
    products = list(Product.objects.filter(quantity__gt=1000).order_by("pk").values_list("pk", flat=True))
    admin, owner = User.objects.get(email="admin@bench.example"), User.objects.get(email="owner5@bench.example")
    customers = list(User.objects.filter(role="CUSTOMER").order_by("pk")[:100])

    def client(user: User) -> Client:
        key = create_api_key(user=user, name="bench", now=timezone.now())[1]
        made = Client(headers={"Authorization": f"Bearer {key}", "Host": "localhost"})
        made.get("/api/types")  # a key's first request records its use
        return made

    def repeat(kind: str, request: Callable[[int], Any], number: int) -> None:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            began = time.perf_counter()
            answer = request(number)
            durations[kind].append((time.perf_counter() - began) * 1000)
            if answer.status_code not in (200, 201):
                failures.append(answer.content.decode())
            number += 7
        connection.close()

    threads = []
    for number in range(THREADS):
        reader, writer = client(owner if number % 2 else admin), client(customers[os.getpid() % 90 + number])

        def read(_: int, reader: Client = reader) -> Any:
            return reader.get("/api/analytics")

        def write(number: int, writer: Client = writer) -> Any:
            lines = [{"product_id": products[number * 97 % len(products)], "order_quantity": 1}]
            return writer.post("/api/orders", {"products": lines}, content_type="application/json")

        seed = os.getpid() * 31 + number * 1009
        threads += [threading.Thread(target=repeat, args=("reads", read, seed))]
        threads += [threading.Thread(target=repeat, args=("writes", write, seed))]
    gc.collect()
    gc.freeze()  # as the server does after its start
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queue.put((durations, failures))


def aggregate() -> None:
    """Aggregate the ledger every second, as a worker does."""
    import django

    django.setup()
    from django.utils import timezone

    from commerce.analytics.aggregation.batches import aggregate_ledger

    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        aggregate_ledger(now=timezone.now())
        time.sleep(1)


def main() -> None:
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    processes = [context.Process(target=work, args=(queue,)) for _ in range(PROCESSES)]
    processes.append(context.Process(target=aggregate))
    for process in processes:
        process.start()
    answers = [queue.get(timeout=SECONDS * 20) for _ in range(PROCESSES)]
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert [failure for _, failures in answers for failure in failures] == []
    import django

    django.setup()
    from commerce.analytics.aggregation.reconcile import find_differences

    result = {}
    for kind in ("reads", "writes"):
        duration = sorted(value for durations, _ in answers for value in durations[kind])
        result[kind] = {
            "count": len(duration),
            "p50": statistics.median(duration),
            "p99": duration[int(len(duration) * 0.99)],
        }
    assert find_differences() == []
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
