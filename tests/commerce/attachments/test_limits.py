"""Row U9: uploads and deletions are ten a minute a user."""

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


def test_u9_of_thirty_uploads_at_once_ten_are_taken(customer: User, settings: Settings):
    settings.UPLOAD_LIMIT = 10
    headers, answers = bearer(customer), []
    content = image_file(width=8, height=8)

    def attempt() -> None:
        sent = {"attachment[]": SimpleUploadedFile("a.png", content)}
        answers.append(Client(headers=headers).post("/api/attachments", sent))
        connection.close()

    threads = [threading.Thread(target=attempt) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    refused = [answer for answer in answers if answer.status_code == 429]
    assert sorted(answer.status_code for answer in answers) == [200] * 10 + [429] * 20
    assert Attachment.objects.count() == 10
    assert all(1 <= int(answer.headers["Retry-After"]) <= 60 for answer in refused)
    assert {answer.headers["X-RateLimit-Limit"] for answer in answers} == {"10"}
    assert {answer.headers["X-RateLimit-Remaining"] for answer in refused} == {"0"}
    assert {answer.json()["code"] for answer in refused} == {"rate_limited"}


def test_the_eleventh_deletion_in_a_minute_is_refused_and_another_users_is_not(customer: User, settings: Settings):
    settings.DELETE_LIMIT = 10
    headers, other = bearer(customer), bearer(make_user(Role.CUSTOMER, "other"))

    statuses = [Client(headers=headers).delete("/api/attachments/1").status_code for _ in range(11)]

    assert statuses == [404] * 10 + [429]
    assert Client(headers=other).delete("/api/attachments/1").status_code == 404


def test_reading_is_not_what_is_limited(upload: Upload, settings: Settings):
    settings.UPLOAD_LIMIT = settings.DELETE_LIMIT = 1

    assert [Client().get("/api/attachments").status_code for _ in range(3)] == [200] * 3
