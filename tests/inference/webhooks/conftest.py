"""Fixtures of webhook tests: users, receivers, and announcements on a running server."""

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
from tests.inference.running_server import RunningServer
from tests.webhook_receivers import Receiver, ResponseWriter, running_receiver

# Announces a number of events to a user; two of the deliveries have failed.
_ANNOUNCE = """
import sys
import django
django.setup()
from django.utils import timezone
from shared.webhooks.models import Attempt, Delivery, DeliveryState
from shared.webhooks.services import announce
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
    """Return a user who may have webhooks."""
    return make_user("owner")


def make_user(name: str) -> User:
    return create_user(
        email=f"{name}@example.com", name=name, password=None, role=Role.STAFF, now=timezone.now() - timedelta(days=1)
    )


@pytest.fixture
def receive(settings: Settings) -> Iterator[Callable[[ResponseWriter], Receiver]]:
    """Return a function that starts an allowlisted receiver on this machine."""
    with ExitStack() as running:

        def start(answer: ResponseWriter) -> Receiver:
            receiver = running.enter_context(running_receiver(answer))
            settings.WEBHOOK_ALLOW = settings.WEBHOOK_ALLOW | {receiver.authority}
            return receiver

        yield start


@pytest.fixture
def announce(stoa: RunningServer) -> Any:
    """Return a function that announces events to the user of a role."""

    def announce(role: str, count: int) -> None:
        command = [sys.executable, "-c", _ANNOUNCE, f"{role.lower()}@example.com", str(count)]
        subprocess.run(command, cwd=REPOSITORY, env=stoa.environment, check=True, timeout=100)

    return announce
