"""Create COUNT batch requests with results, and usage rows, and print the database bytes of each as JSON.

Usage: `python -m tests.benchmarks.growth._growth_models COUNT`, with the settings in the environment.
"""

import json
import sys
from datetime import date, timedelta

import django

django.setup()

from django.utils import timezone  # noqa: E402 - what needs Django's apps comes after them

from inference.batches.models import Batch  # noqa: E402
from inference.batches.services import NewRequest, create_batch  # noqa: E402
from inference.batches.worker.leases import acquire_lease, claim_requests  # noqa: E402
from inference.batches.worker.recording import RequestOutcome, record_outcomes  # noqa: E402
from inference.engine import Usage  # noqa: E402
from inference.usage.ledger import LedgerAmount, LedgerKey, add_to_ledger  # noqa: E402
from shared.accounts.roles import Role  # noqa: E402
from shared.accounts.services import create_api_key, create_user  # noqa: E402
from tests.benchmarks.growth._growth_sizes import bytes_per_object  # noqa: E402

MODEL = "stoa-describer"
PROMPT = "Describe the Oakhurst lamp. Keywords: warm light, linen shade, turned oak foot, dimmable"
ANSWER = json.dumps({"choices": [{"index": 0, "text": "The Oakhurst lamp " * 10, "finish_reason": "stop"}]})
DAYS = 30


def accept(count: int) -> None:
    requests = (NewRequest(f"r{n}", json.dumps({"id": f"r{n}", "prompt": PROMPT})) for n in range(count))
    create_batch(user=USER, kind=Batch.Kind.NATIVE, model_id=MODEL, requests=requests, now=timezone.now())


def answer(_: int) -> None:
    batch = Batch.objects.latest("pk").pk
    lease = acquire_lease(batch_pk=batch, worker="growth", now=timezone.now())
    assert lease is not None
    counts = {"prompt_tokens": 30, "completion_tokens": 60, "processing_time_ms": 80}
    while claimed := claim_requests(lease_id=lease, batch_pk=batch, limit=64):
        outcomes = [RequestOutcome(request=one.pk, answer=ANSWER, **counts) for one in claimed]
        record_outcomes(lease_id=lease, batch_pk=batch, outcomes=outcomes, now=timezone.now())


def use(_: int) -> None:
    """Create usage rows of many keys over a month."""
    first = date(2026, 1, 1)
    days = [first + timedelta(days=day) for day in range(DAYS)]
    rows = [LedgerKey(day, USER.pk, key, MODEL) for day in days for key in KEYS]
    add_to_ledger(dict.fromkeys(rows, LedgerAmount(120, Usage(90_000, 24_000, 30_000))))


if __name__ == "__main__":
    USER = create_user(
        email="growth@example.com", name="Growth", password=None, role=Role.STORE_OWNER, now=timezone.now()
    )
    number = int(sys.argv[1])
    names = [f"key {place}" for place in range(number // DAYS)]
    KEYS = [create_api_key(user=USER, name=name, now=timezone.now())[0].pk for name in names]
    kinds = {
        f"a batch's request of {len(PROMPT)} letters": accept,
        f"its result of {len(ANSWER)} letters": answer,
        "a key's usage of a day and model": use,
    }
    print(json.dumps({name: bytes_per_object(make, number) for name, make in kinds.items()}))
