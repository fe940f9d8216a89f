"""Row U9: at most ten uploads and ten deletions per minute and user."""

import threading

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from pytest_django import Settings

from commerce.attachments.models import Attachment
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.attachments.conftest import Upload
from tests.commerce.attachments.samples import image_file
from tests.commerce.conftest import bearer, make_user

pytestmark = pytest.mark.django_db(transaction=True)


def test_u9_ten_of_thirty_concurrent_uploads_are_accepted(customer: User, settings: Settings):
    settings.UPLOAD_LIMIT = 10
    headers, responses = bearer(customer), []
    content = image_file(width=8, height=8)

    def attempt() -> None:
        sent = {"attachment[]": SimpleUploadedFile("a.png", content)}
        responses.append(Client(headers=headers).post("/api/attachments", sent))
        connection.close()

    threads = [threading.Thread(target=attempt) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    refused = [response for response in responses if response.status_code == 429]
    assert sorted(response.status_code for response in responses) == [200] * 10 + [429] * 20
    assert Attachment.objects.count() == 10
    assert all(1 <= int(response.headers["Retry-After"]) <= 60 for response in refused)
    assert {response.headers["X-RateLimit-Limit"] for response in responses} == {"10"}
    assert {response.headers["X-RateLimit-Remaining"] for response in refused} == {"0"}
    assert {response.json()["code"] for response in refused} == {"rate_limited"}


def test_eleventh_deletion_in_a_minute_is_refused_for_that_user_only(customer: User, settings: Settings):
    settings.DELETE_LIMIT = 10
    headers, other = bearer(customer), bearer(make_user(Role.CUSTOMER, "other"))

    statuses = [Client(headers=headers).delete("/api/attachments/1").status_code for _ in range(11)]

    assert statuses == [404] * 10 + [429]
    assert Client(headers=other).delete("/api/attachments/1").status_code == 404


def test_reads_are_not_limited(upload: Upload, settings: Settings):
    settings.UPLOAD_LIMIT = settings.DELETE_LIMIT = 1

    assert [Client().get("/api/attachments").status_code for _ in range(3)] == [200] * 3
