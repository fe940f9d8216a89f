"""Erasure of a user in the model server: the sums of usage stay, under an id."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.files.storage import default_storage
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone
from pytest_django import Settings

from inference.batches.models import Batch, BatchRequest, BatchResult
from inference.batches.services import NewRequest, create_batch
from inference.batches.worker.leases import acquire_lease, claim_requests
from inference.batches.worker.recording import RequestOutcome, record_outcomes
from inference.engine import Usage
from inference.files.models import StoredFile, Upload
from inference.files.services import sweep_files, upload_file
from inference.files.uploads.services import add_part, create_upload
from inference.openai_batches.models import FileBatch
from inference.openai_batches.services import create_file_batch
from inference.protocol.openai.batches import OpenAIBatchCreateRequest
from inference.protocol.openai.responses.items import MessageItem
from inference.protocol.openai.responses.request import parse_response_request
from inference.responses.context import read_context
from inference.responses.conversations import create_conversation
from inference.responses.models import Conversation, ConversationItem, StoredResponse
from inference.responses.services import NewResponse, create_background
from inference.streams.models import StoredStream, StreamSegment
from inference.usage.models import DailyUsage
from inference.usage.services import record_usage
from inference.webhooks.events import BATCH_COMPLETE
from shared.accounts.authentication import Principal
from shared.accounts.models import User
from shared.accounts.personal_data.erasure import erase_person
from shared.accounts.personal_data.export import export_person
from shared.accounts.roles import Role
from shared.accounts.services import create_user
from shared.api.errors import ApiError
from shared.webhooks.models import Delivery, Endpoint
from shared.webhooks.services import announce, create_endpoint

SAID = "my secret wish"


class ErasesItsReader(SimpleUploadedFile):
    """A file whose reading erases its owner."""

    def __init__(self, person: User) -> None:
        super().__init__("wish.jsonl", SAID.encode())
        self._person = person

    def chunks(self, chunk_size: int | None = None) -> Iterator[bytes]:
        erase_person(user=self._person, actor=None, now=timezone.now())
        yield from super().chunks(chunk_size)


@pytest.fixture
def person(db: None, settings: Settings, tmp_path: Path) -> User:
    settings.MEDIA_ROOT = tmp_path / "files"
    return create_user(email="ada@example.com", name="Ada", password=None, role=Role.STAFF, now=timezone.now())


@pytest.fixture
def left_behind(person: User) -> Batch:
    """A half-finished batch, a file, a webhook with a delivery, and their usage."""
    now = timezone.now()
    requests = [NewRequest(f"r{n}", json.dumps({"id": f"r{n}", "prompt": SAID})) for n in range(3)]
    batch = create_batch(user=person, kind=Batch.Kind.NATIVE, model_id="m", requests=requests, now=now)
    lease_id = acquire_lease(batch_pk=batch.pk, worker="w", now=now)
    assert lease_id
    first = claim_requests(lease_id=lease_id, batch_pk=batch.pk, limit=1)[0]
    done = RequestOutcome(
        request=first.pk, answer=json.dumps({"choices": [SAID]}), prompt_tokens=3, completion_tokens=4
    )
    assert record_outcomes(lease_id=lease_id, batch_pk=batch.pk, outcomes=[done], now=now)
    upload_file(owner=person, content=SimpleUploadedFile("wish.jsonl", SAID.encode()), now=now)
    create_endpoint(user=person, url="https://8.8.8.8/ada", events=[BATCH_COMPLETE], is_enabled=True, now=now)
    announce(user=person, url=None, event=BATCH_COMPLETE, data={}, now=now)
    record_usage(user_id=person.pk, api_key_id=None, model_id="m", usage=Usage(10, 20), now=now)
    leave_response(person)
    return batch


def leave_response(person: User) -> None:
    """Leave a background response in a conversation, with its stream."""
    now = timezone.now()
    caller = Principal(user=person, permissions=frozenset())
    wire = create_conversation(
        user=person, items=[MessageItem(role="user", content=SAID)], metadata={"wish": SAID}, now=now
    )
    body = parse_response_request({"model": "m", "input": SAID, "background": True, "conversation": wire.id})
    context = read_context(user=person, body=body, response_id="resp_1")
    request = body.generation_request("resp_1", context.messages(None))
    new = NewResponse(caller, body.to_response("resp_1", int(now.timestamp()), "queued"), context)
    create_background(new=new, request=request, now=now)


def test_an_export_has_requests_and_responses(person: User, left_behind: Batch):
    text = "".join(export_person(user=person))
    told = json.loads(text)
    assert [json.loads(row["body"])["prompt"] for row in told["inference_batches.BatchRequest.batch"]] == [SAID] * 3
    assert SAID in told["inference_batches.BatchResult.request"][0]["answer"]
    assert [row["name"] for row in told["inference_files.StoredFile.owner"]] == ["wish.jsonl"]
    assert [row["url"] for row in told["inference_webhooks.Endpoint.user"]] == ["https://8.8.8.8/ada"]
    assert len(told["inference_webhooks.Delivery.endpoint"]) == 1
    assert SAID in told["inference_responses.StoredResponse.user"][0]["input_items"]
    assert told["inference_responses.Conversation.user"][0]["metadata"] == {"wish": SAID}
    assert SAID in told["inference_responses.ConversationItem.conversation"][0]["body"]
    assert "response.queued" in told["inference_streams.StreamSegment.stream"][0]["frames"]
    assert Endpoint.objects.get().secret not in text


@pytest.mark.django_db(transaction=True)
def test_batches_files_and_webhooks_go_and_sums_stay(person: User, left_behind: Batch, settings: Settings):
    sums = DailyUsage.objects.sums()
    folder = Path(settings.MEDIA_ROOT) / "files"
    now, part = timezone.now(), SimpleUploadedFile("part", SAID.encode())
    upload = create_upload(owner=person, name="wish.jsonl", size=part.size or 0, retention=None, now=now)
    add_part(owner=person, upload_id=upload.upload_id, content=part, now=now)
    assert len(list(folder.iterdir())) == 2

    erase_person(user=person, actor=None, now=timezone.now())

    responses = (StoredResponse, Conversation, ConversationItem, StoredStream, StreamSegment)
    for model in (Batch, BatchRequest, BatchResult, Endpoint, Delivery, *responses):
        assert not model.objects.exists(), model
    assert list(folder.iterdir()) == []
    assert [row.name for row in (*StoredFile.objects.all(), *Upload.objects.all())] == [""] * 3  # until the sweep
    assert DailyUsage.objects.sums() == sums == DailyUsage.objects.filter(user=person).sums()
    text = "".join(export_person(user=person))
    assert [words for words in (SAID, "wish", "8.8.8.8", "ada@") if words in text] == []


def test_a_late_result_of_an_erased_users_batch_is_refused(person: User, left_behind: Batch):
    lease_id = acquire_lease(batch_pk=left_behind.pk, worker="late", now=timezone.now())
    assert lease_id
    [late] = claim_requests(lease_id=lease_id, batch_pk=left_behind.pk, limit=1)

    erase_person(user=person, actor=None, now=timezone.now())

    outcome = RequestOutcome(request=late.pk, answer='{"choices": []}')
    assert not record_outcomes(lease_id=lease_id, batch_pk=left_behind.pk, outcomes=[outcome], now=timezone.now())
    assert not BatchResult.objects.exists()


def test_requests_received_before_and_written_after_erasure_are_refused(person: User):
    """Checking a file's lines or resolving a name takes seconds, in which the user may be erased."""
    asking = User.objects.get(pk=person.pk)
    now = timezone.now()
    erase_person(user=person, actor=None, now=now)

    with pytest.raises(ApiError, match="deactivated"):
        create_batch(
            user=asking, kind=Batch.Kind.NATIVE, model_id="m", requests=[NewRequest("a", f'"{SAID}"')], now=now
        )
    with pytest.raises(ApiError, match="deactivated"):
        upload_file(owner=asking, content=SimpleUploadedFile("wish.jsonl", SAID.encode()), now=now)
    with pytest.raises(ApiError, match="deactivated"):
        create_endpoint(user=asking, url="https://8.8.8.8/ada", events=[BATCH_COMPLETE], is_enabled=True, now=now)
    with pytest.raises(ApiError, match="deactivated"):
        leave_response(asking)

    for model in (Batch, BatchRequest, Endpoint, StoredFile, Conversation, StoredResponse, StoredStream):
        assert not model.objects.exists(), model


def test_a_wrong_file_whose_owner_is_erased_while_it_is_checked_makes_no_batch(
    person: User, monkeypatch: pytest.MonkeyPatch
):
    asking, now = User.objects.get(pk=person.pk), timezone.now()
    file = upload_file(owner=asking, content=SimpleUploadedFile("wish.jsonl", SAID.encode()), now=now)

    monkeypatch.setattr(default_storage, "open", lambda path: ErasesItsReader(person))
    body = OpenAIBatchCreateRequest(
        input_file_id=file.file_id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"a": SAID}
    )
    with pytest.raises(ApiError, match="deactivated"):
        create_file_batch(caller=Principal(user=asking, permissions=frozenset()), body=body, now=now)

    assert not FileBatch.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_files_being_stored_during_erasure_are_deleted(person: User, settings: Settings):
    now = timezone.now()

    with pytest.raises(ApiError):
        upload_file(owner=person, content=ErasesItsReader(person), now=now)

    assert not StoredFile.objects.for_user(person).exists()
    sweep_files(now=now + timedelta(hours=2))
    assert not StoredFile.objects.exists()
    assert list((Path(settings.MEDIA_ROOT) / "files").iterdir()) == []
