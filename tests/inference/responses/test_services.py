"""Services of stored responses and conversations, on the database alone."""

from datetime import timedelta

import pytest
from django.utils import timezone

from inference.access.resumption import StreamKey
from inference.protocol.openai.responses.request import parse_response_request
from inference.responses import services
from inference.responses.context import InputContext
from inference.responses.models import StoredResponse
from inference.responses.services import NewResponse
from inference.responses.worker.claims import claim_responses
from inference.streams.services import end_interrupted
from shared.accounts.authentication import Principal
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import create_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def user() -> User:
    return new_user("writer")


def new_user(name: str) -> User:
    return create_user(email=f"{name}@example.com", name=name, password=None, role=Role.SUPER_ADMIN, now=timezone.now())


def queue(user: User, name: str, key: StreamKey | None = None) -> StoredResponse:
    """Store a background response that no worker has claimed."""
    body = parse_response_request({"model": "talker", "input": name, "background": True})
    response = body.to_response(f"resp_{name}", 1.0, "queued")
    new = NewResponse(Principal(user=user, permissions=frozenset()), response, InputContext([], []))
    request = body.generation_request(response.id, InputContext([], body.new_items()).messages(None))
    return services.create_background(new=new, request=request, key=key, now=timezone.now())


def test_resuming_the_stream_of_a_queued_response_leaves_it_to_the_workers(user: User):
    row = queue(user, "one", StreamKey("scope", "fingerprint"))

    ended = end_interrupted(stream_pk=row.stream_pk, frame=b"data: {}\n\n", now=timezone.now() + timedelta(minutes=1))

    assert not ended
    claimed = claim_responses(limit=10, running={}, now=timezone.now())
    assert [one.row.pk for one in claimed] == [row.pk]
