"""What the tests of webhooks share."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import create_user
from tests.inference.engine.processes import REPOSITORY
from tests.inference.served import ServedStoa
from tests.inference.webhooks.receivers import Answer, Receiver, receiving

# Announces so many things to a user; two of them have been given up.
_ANNOUNCE = """
import sys
import django
django.setup()
from django.utils import timezone
from inference.webhooks.models import Attempt, Delivery
from inference.webhooks.services import announce
from shared.accounts.models import User
now = timezone.now()
user = User.objects.get(email=sys.argv[1])
for number in range(int(sys.argv[2])):
    announce(user=user, url=None, event="batch.complete", data={"number": number}, now=now)
for delivery in Delivery.objects.filter(endpoint__user=user).order_by("pk")[:2]:
    Attempt.objects.create(delivery=delivery, number=1, started_at=now, duration_ms=7, status=500, failure="status")
    Delivery.objects.filter(pk=delivery.pk).update(state="failed", due_at=None, finished_at=now, attempts=1)
"""


@pytest.fixture
def user(db: None) -> User:
    """Somebody who may have webhooks."""
    return make_user("owner")


def make_user(name: str) -> User:
    return create_user(
        email=f"{name}@example.com", name=name, password=None, role=Role.STAFF, now=timezone.now() - timedelta(days=1)
    )


@pytest.fixture
def receive(settings: Settings) -> Iterator[Callable[[Answer], Receiver]]:
    """Starts a receiver, to which webhooks may go though it is on this machine."""
    with ExitStack() as running:

        def start(answer: Answer) -> Receiver:
            receiver = running.enter_context(receiving(answer))
            settings.WEBHOOK_ALLOW = settings.WEBHOOK_ALLOW | {receiver.authority}
            return receiver

        yield start


@pytest.fixture
def announce(stoa: ServedStoa) -> Any:
    """Announces things to the user of a role."""

    def announce(role: str, count: int) -> None:
        command = [sys.executable, "-c", _ANNOUNCE, f"{role.lower()}@example.com", str(count)]
        subprocess.run(command, cwd=REPOSITORY, env=stoa.environment, check=True, timeout=100)

    return announce
