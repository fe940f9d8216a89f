"""Services of stored responses and conversations, on the database alone."""

from datetime import timedelta

import pytest
from django.utils import timezone

from inference.access.resumption import StreamKey
from inference.engine import InvalidRequest
from inference.protocol.openai.responses.items import MessageItem
from inference.protocol.openai.responses.request import parse_response_request
from inference.responses import conversations, services
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


def test_p5_a_conversation_and_their_number_have_maxima(user: User, monkeypatch: pytest.MonkeyPatch):
    now, item = timezone.now(), MessageItem(role="user", content="x" * 400)
    monkeypatch.setattr(conversations, "MAX_CONVERSATION_LENGTH", 1000)
    monkeypatch.setattr(conversations, "MAX_CONVERSATIONS", 2)
    made = conversations.create_conversation(user=user, items=[item], metadata={}, now=now)

    with pytest.raises(InvalidRequest, match="at most 1000 characters"):
        conversations.create_items(user=user, conversation_id=made.id, items=[item, item], now=now)
    conversations.create_conversation(user=user, items=[item], metadata={}, now=now)
    with pytest.raises(InvalidRequest, match="2 conversations, the maximum"):
        conversations.create_conversation(user=user, items=[], metadata={}, now=now)
    conversations.create_conversation(user=new_user("other"), items=[item], metadata={}, now=now)
