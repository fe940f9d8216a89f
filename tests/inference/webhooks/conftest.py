"""What the tests of webhooks share."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import create_user
from tests.inference.webhooks.receivers import Answer, Receiver, receiving


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
