"""Fixture: an owner of files."""

from datetime import UTC, datetime

import pytest

from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import create_user


@pytest.fixture
def owner(db: None) -> User:
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    return create_user(email="a@example.com", name="A", password="a lamp for every room", role=Role.STAFF, now=now)
