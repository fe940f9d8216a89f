"""Fixtures: a user, and a factory of batches."""

import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from inference.batches.models import Batch
from inference.batches.services import NewRequest, create_batch
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import create_user

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
MakeBatch = Callable[..., Batch]


@pytest.fixture
def user(db: None) -> User:
    return create_user(email="a@example.com", name="A", password=None, role=Role.STORE_OWNER, now=NOW)


@pytest.fixture
def make_batch(user: User) -> MakeBatch:
    """Return a factory of native batches with requests `r0`, `r1` and so on, each with these parameters."""

    def make(count: int = 3, now: datetime = NOW, **parameters: object) -> Batch:
        ids = [f"r{n}" for n in range(count)]
        requests = [NewRequest(its, json.dumps({"id": its, "prompt": "speak"} | parameters)) for its in ids]
        return create_batch(user=user, kind=Batch.Kind.NATIVE, model_id="talker", requests=requests, now=now)

    return make
