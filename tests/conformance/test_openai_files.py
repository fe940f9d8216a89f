"""The official openai client against /v1/files, with strict response validation."""

import io
from collections.abc import Iterator

import openai
import pytest

from tests.running_stoa import RunningStoa

LINES = b'{"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {}}\n'


@pytest.fixture
def client(stoa: RunningStoa) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{stoa.inference_url}/v1", api_key=stoa.api_key, max_retries=0, _strict_response_validation=True
    ) as client:
        yield client


def test_a_file_is_uploaded_read_and_deleted(client: openai.OpenAI):
    file = client.files.create(file=("lines.jsonl", LINES), purpose="batch")

    assert (file.object, file.filename, file.bytes, file.purpose) == ("file", "lines.jsonl", len(LINES), "batch")
    assert client.files.retrieve(file.id) == file
    assert client.files.wait_for_processing(file.id) == file
    assert client.files.content(file.id).read() == LINES
    with client.files.with_streaming_response.content(file.id) as streamed:
        assert b"".join(streamed.iter_bytes()) == LINES
    gone = client.files.delete(file.id)
    assert (gone.id, gone.object, gone.deleted) == (file.id, "file", True)
    with pytest.raises(openai.NotFoundError, match=file.id):
        client.files.retrieve(file.id)


def test_a_streamed_upload_and_an_expiring_file(client: openai.OpenAI):
    named = io.BytesIO(LINES)
    named.name = "named.jsonl"

    file = client.files.create(file=named, purpose="batch", expires_after={"anchor": "created_at", "seconds": 3600})

    assert file.filename == "named.jsonl"
    assert file.expires_at == file.created_at + 3600


def test_the_client_pages_through_files(client: openai.OpenAI):
    ids = [client.files.create(file=("a.jsonl", LINES), purpose="batch").id for _ in range(5)]

    assert [file.id for file in client.files.list(limit=2)][:5] == ids[::-1]
    assert [file.id for file in client.files.list(limit=2, order="asc")][-5:] == ids
    assert next(iter(client.files.list(after=ids[3], limit=2, order="asc"))).id == ids[4]
    assert {file.purpose for file in client.files.list(purpose="batch_output")} <= {"batch_output"}
    for file in client.files.list(limit=2):
        client.files.delete(file.id)
    assert list(client.files.list()) == []


def test_errors_are_raised_as_the_errors_of_the_client(client: openai.OpenAI):
    with pytest.raises(openai.BadRequestError) as refused:
        client.files.create(file=("a.jsonl", LINES), purpose="fine-tune")
    assert (refused.value.param, refused.value.code) == ("purpose", "invalid_request")
    with pytest.raises(openai.BadRequestError) as refused:
        client.files.create(file=("a.jsonl", b""), purpose="batch")
    assert refused.value.param == "file"
    with pytest.raises(openai.NotFoundError):
        client.files.content("file-000000000000000000000000")


async def test_the_async_client_works(stoa: RunningStoa):
    async with openai.AsyncOpenAI(
        base_url=f"{stoa.inference_url}/v1", api_key=stoa.api_key, max_retries=0, _strict_response_validation=True
    ) as client:
        file = await client.files.create(file=("lines.jsonl", LINES), purpose="batch")
        other = await client.files.create(file=("other.jsonl", LINES), purpose="batch")

        assert await client.files.retrieve(file.id) == file
        assert (await client.files.content(file.id)).content == LINES
        assert [one.id async for one in client.files.list(limit=1)][:2] == [other.id, file.id]
        for one in (file, other):
            assert (await client.files.delete(one.id)).deleted
