"""Row N4: the quotas of the files that one user and the staff of one shop store."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.db import connection
from django.db.models import Sum
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from commerce.attachments.models import Attachment
from commerce.shops.models import Shop, ShopStaff
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import set_attachment_limits
from tests.commerce.attachments.conftest import Upload, files_in
from tests.commerce.attachments.samples import pdf_file
from tests.commerce.conftest import bearer, make_user

PDF = ("prices.pdf", pdf_file())


def test_n4_files_over_the_quota_of_an_unconfirmed_user_are_413_and_not_stored(
    upload: Upload, customer: User, media_root: Path, settings: Settings
):
    settings.MAX_UNVERIFIED_ATTACHMENTS = 3
    assert upload(PDF, PDF).status_code == 200
    before = files_in(media_root)

    refused = upload(PDF, PDF)
    assert refused.status_code == 413
    left = 50 * 1024 * 1024 - 2 * len(pdf_file())
    assert refused.json()["code"] == "payload_too_large"
    assert refused.json()["message"] == (
        f"Your quota has {left} bytes and 1 files left; this upload has 0 bytes and 2 files. "
        "Delete attachments or confirm your e-mail address first."
    )
    assert files_in(media_root) == before
    assert upload(PDF).status_code == 200
    assert upload(PDF).status_code == 413

    Client(headers=bearer(customer)).delete(f"/api/attachments/{Attachment.objects.earliest('id').pk}")
    assert upload(PDF).status_code == 200, "what is deleted is free again"


def test_n4_bytes_count_and_a_confirmed_user_has_the_larger_quota(
    upload: Upload, customer: User, media_root: Path, settings: Settings
):
    settings.MAX_UNVERIFIED_ATTACHMENT_BYTES = 2 * len(pdf_file())
    settings.MAX_ATTACHMENT_BYTES_PER_USER = 3 * len(pdf_file())
    assert upload(PDF, PDF).status_code == 200
    before = files_in(media_root)
    assert (upload(PDF).status_code, files_in(media_root)) == (413, before)

    User.objects.filter(pk=customer.pk).update(email_verified_at=timezone.now())
    assert [upload(PDF).status_code for _ in range(2)] == [200, 413]
    assert upload(PDF, by=make_user(Role.SUPER_ADMIN)).status_code == 200, "a super admin has no quota"


@pytest.mark.django_db(transaction=True)
def test_n4_of_fifty_concurrent_uploads_no_more_than_the_quota_are_stored(
    upload: Upload, customer: User, settings: Settings
):
    settings.MAX_UNVERIFIED_ATTACHMENT_BYTES = 5 * len(pdf_file())

    def send(_: int) -> int:
        try:
            return int(upload(PDF).status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(50) as pool:
        statuses = sorted(pool.map(send, range(50)))
    assert statuses == [200] * 5 + [413] * 45
    assert Attachment.objects.aggregate(size=Sum("size"))["size"] == 5 * len(pdf_file())


def test_n4_me_shows_the_quota_and_what_is_left_and_the_admin_sets_it_for_one_user(
    upload: Upload, customer: User, media_root: Path
):
    assert upload(PDF).status_code == 200
    client, size = Client(headers=bearer(customer)), len(pdf_file())
    default = 50 * 1024 * 1024
    assert client.get("/api/me").json()["storage"] == {
        "max_bytes": default, "max_files": 200, "remaining_bytes": default - size, "remaining_files": 199, "shops": []
    }  # fmt: skip

    set_attachment_limits(user=customer, max_bytes=size * 2, max_count=None)
    assert client.get("/api/me").json()["storage"] == {
        "max_bytes": size * 2, "max_files": 200, "remaining_bytes": size, "remaining_files": 199, "shops": []
    }  # fmt: skip
    assert [upload(PDF).status_code for _ in range(2)] == [200, 413]
    set_attachment_limits(user=customer, max_bytes=None, max_count=2)
    assert client.get("/api/me").json()["storage"]["remaining_files"] == 0
    assert upload(PDF).status_code == 413


def test_n4_a_super_admin_sets_the_quota_of_a_user_in_the_admin(upload: Upload, customer: User, admin: User):
    page, path = Client(), f"/admin/accounts/user/{customer.pk}/change/"
    page.force_login(admin)
    initial = page.get(path).context["adminform"].form.initial
    values = {name: value for name, value in initial.items() if value not in (None, False)}

    assert page.post(path, values | {"attachment_count_limit": 1}).status_code == 302

    assert Client(headers=bearer(customer)).get("/api/me").json()["storage"]["remaining_files"] == 1
    assert [upload(PDF).status_code for _ in range(2)] == [200, 413]
    assert page.post(path, values | {"attachment_count_limit": ""}).status_code == 302
    assert Client(headers=bearer(customer)).get("/api/me").json()["storage"]["max_files"] == 200


def test_n4_me_of_a_super_admin_has_no_quota(admin: User):
    storage = Client(headers=bearer(admin)).get("/api/me").json()["storage"]
    unlimited = dict.fromkeys(["max_bytes", "max_files", "remaining_bytes", "remaining_files"])
    assert storage == {**unlimited, "shops": []}


def test_n4_the_files_of_a_shops_staff_count_in_its_quota(
    upload: Upload, owner: User, staff: User, shop: Shop, media_root: Path, settings: Settings
):
    settings.MAX_ATTACHMENTS_PER_SHOP = 3
    colleague = make_user(Role.STAFF, "colleague")
    ShopStaff.objects.create(user=colleague, shop=shop)
    assert [upload(PDF, by=user).status_code for user in (owner, staff, staff, colleague)] == [200] * 4
    before = files_in(media_root)

    refused = upload(PDF, by=colleague)
    left = settings.MAX_ATTACHMENT_BYTES_PER_SHOP - 3 * len(pdf_file())
    assert refused.status_code == 413
    assert refused.json()["message"] == (
        f"The staff's quota of the shop 'Corner' has {left} bytes and 0 files left; "
        "this upload has 0 bytes and 1 files. Its owner and those who uploaded its files can delete them."
    )
    assert (upload(PDF, by=staff).status_code, files_in(media_root)) == (413, before)
    assert upload(PDF, by=owner).status_code == 200, "an owner has a quota of their own"
    elsewhere = make_user(Role.STAFF, "elsewhere")
    other = Shop.objects.create(owner=make_user(Role.STORE_OWNER, "other"), name="Other", slug="other")
    ShopStaff.objects.create(user=elsewhere, shop=other)
    assert upload(PDF, by=elsewhere).status_code == 200, "another shop has its own quota"

    of_staff = Attachment.objects.filter(owner=staff).first()
    assert of_staff
    assert Client(headers=bearer(other.owner)).delete(f"/api/attachments/{of_staff.pk}").status_code == 404
    assert Client(headers=bearer(owner)).delete(f"/api/attachments/{of_staff.pk}").status_code == 200
    assert [upload(PDF, by=staff).status_code for _ in range(2)] == [200, 413]


def test_n4_files_count_in_the_quota_of_the_shop_after_their_uploader_has_left_it(
    upload: Upload, owner: User, staff: User, shop: Shop, settings: Settings
):
    settings.MAX_ATTACHMENTS_PER_SHOP = 1
    assert upload(PDF, by=staff).status_code == 200
    assert Client(headers=bearer(owner)).delete(f"/api/shops/{shop.pk}/staff/{staff.pk}").status_code == 200
    successor = make_user(Role.STAFF, "successor")
    ShopStaff.objects.create(user=successor, shop=shop)
    assert upload(PDF, by=successor).status_code == 413
    staff.refresh_from_db()
    assert upload(PDF, by=staff).status_code == 200, "the former staff member's files are their own now"


def test_n4_me_shows_the_quota_of_each_shop_and_the_admin_sets_it_for_one(
    upload: Upload, owner: User, staff: User, shop: Shop, admin: User
):
    second = Shop.objects.create(owner=owner, name="Second", slug="second")
    assert [upload(PDF, by=user).status_code for user in (owner, staff)] == [200, 200]
    size, limit, count = len(pdf_file()), 20 * 1024**3, 100_000
    first_shop = {
        "shop_id": shop.pk, "shop_name": "Corner", "max_bytes": limit, "max_files": count,
        "remaining_bytes": limit - size, "remaining_files": count - 1,
    }  # fmt: skip
    second_shop = {
        "shop_id": second.pk, "shop_name": "Second", "max_bytes": limit, "max_files": count,
        "remaining_bytes": limit, "remaining_files": count,
    }  # fmt: skip
    assert Client(headers=bearer(owner)).get("/api/me").json()["storage"]["shops"] == [first_shop, second_shop]

    page = Client()
    page.force_login(admin)
    form = page.get(f"/admin/commerce_shops/shop/{shop.pk}/change/").context["adminform"].form
    values = {name: value for name, value in form.initial.items() if value is not None}
    values |= {"attachment_byte_limit": 2 * size, "address": "{}", "settings": "{}"}
    inline = {"staff-TOTAL_FORMS": 0, "staff-INITIAL_FORMS": 0}
    assert page.post(f"/admin/commerce_shops/shop/{shop.pk}/change/", values | inline).status_code == 302

    storage = Client(headers=bearer(staff)).get("/api/me").json()["storage"]["shops"]
    assert storage == [{**first_shop, "max_bytes": 2 * size, "remaining_bytes": size}]
    assert [upload(PDF, by=staff).status_code for _ in range(2)] == [200, 413]
    assert upload(PDF, by=owner).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_n4_of_fifty_concurrent_uploads_by_a_shops_staff_no_more_than_its_quota_are_stored(
    upload: Upload, shop: Shop, settings: Settings
):
    settings.MAX_ATTACHMENTS_PER_SHOP = 5
    people = [make_user(Role.STAFF, name) for name in ("ada", "ben", "cem", "dee")]
    ShopStaff.objects.bulk_create(ShopStaff(user=user, shop=shop) for user in people)

    def send(number: int) -> int:
        try:
            return int(upload(PDF, by=people[number % 4]).status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(50) as pool:
        statuses = sorted(pool.map(send, range(50)))
    assert statuses == [200] * 5 + [413] * 45
    assert Attachment.objects.count() == 5
