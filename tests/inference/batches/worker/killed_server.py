"""Create batches in processes that are killed before they dispatch them: `python -m ... COUNT`.

Each batch is created in a fork, which is killed before or after it sets `sent_at`. Prints the ids of the created
batches as JSON. The settings come from the environment.
"""

import json
import os
import signal
import sys
from typing import Any

import django

django.setup()

from django.db import connection  # noqa: E402 - what needs Django's apps comes after them
from django.utils import timezone  # noqa: E402

from inference.batches import dispatch, services  # noqa: E402
from inference.batches.models import Batch  # noqa: E402
from inference.batches.services import NewRequest, create_batch  # noqa: E402
from shared.accounts.models import User  # noqa: E402
from shared.accounts.roles import Role  # noqa: E402

REQUESTS = [NewRequest(name, f'{{"id": "{name}", "prompt": "speak", "max_tokens": 2}}') for name in ("a", "b")]


def die(*args: Any, **kwargs: Any) -> bool:
    os.kill(os.getpid(), signal.SIGKILL)
    return False


def accept(user: User, *, notes: bool) -> None:
    if notes:
        dispatch.send = die
    else:
        services.dispatch_batch = die  # type: ignore[assignment]
    create_batch(user=user, kind=Batch.Kind.NATIVE, model_id="talker", requests=REQUESTS, now=timezone.now())


def main() -> None:
    user = User.objects.get(role=Role.SUPER_ADMIN)
    before = set(Batch.objects.values_list("batch_id", flat=True))
    for number in range(int(sys.argv[1])):
        connection.close()
        if connection.vendor == "postgresql":
            connection.close_pool()  # a fork must not share connections
        if os.fork() == 0:
            accept(user, notes=bool(number % 2))
            os._exit(0)
        _, ended = os.wait()
        assert os.WIFSIGNALED(ended)
    print(json.dumps(sorted(set(Batch.objects.values_list("batch_id", flat=True)) - before)))


if __name__ == "__main__":
    main()
