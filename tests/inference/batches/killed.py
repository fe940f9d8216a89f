"""Accepts batches and is killed before it has sent for a worker: `python -m ... COUNT`, with the settings in the
environment. Each is accepted in a fork of its own, which dies before or after it has noted that it sends. Prints the
batches that are there, as JSON.
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

from inference.batches import dispatch  # noqa: E402
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
        dispatch.wake = die  # type: ignore[assignment]
    create_batch(user=user, kind=Batch.Kind.NATIVE, model_id="talker", requests=REQUESTS, now=timezone.now())


def main() -> None:
    user = User.objects.get(role=Role.SUPER_ADMIN)
    before = set(Batch.objects.values_list("batch_id", flat=True))
    for number in range(int(sys.argv[1])):
        connection.close()
        if connection.vendor == "postgresql":
            connection.close_pool()  # a fork has connections of its own
        if os.fork() == 0:
            accept(user, notes=bool(number % 2))
            os._exit(0)
        _, ended = os.wait()
        assert os.WIFSIGNALED(ended)
    print(json.dumps(sorted(set(Batch.objects.values_list("batch_id", flat=True)) - before)))


if __name__ == "__main__":
    main()
