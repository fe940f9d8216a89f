"""The admin: super admins only, beside pages for shop users, with the sign-in limits, and without access to secrets."""

import re

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from shared.accounts.authentication import authenticate
from shared.accounts.models import ApiKey, User
from shared.accounts.roles import Role
from shared.accounts.services import create_api_key
from tests.shared.accounts.conftest import PASSWORD, CountingHasher, is_accepted, make_user, signed_in

pytestmark = pytest.mark.django_db

RAW_KEY = re.compile(r"stoa_[0-9a-f]{16}_[\w-]{43}")


@pytest.fixture
def site(admin_user: User) -> Client:
    client = Client()
    client.force_login(admin_user)
    return client


def sign_in(email: str, password: str, address: str = "192.0.2.1") -> tuple[int, bool]:
    """Return the status and whether the client is signed in."""
    client = Client(raise_request_exception=False)
    answer = client.post("/admin/login/", {"username": email, "password": password}, REMOTE_ADDR=address)
    return answer.status_code, "_auth_user_id" in client.session


def test_x2_a_super_admin_signs_in_by_email(admin_user: User) -> None:
    assert sign_in("Root@example.com", PASSWORD) == (302, True)


def test_x2_customers_cannot_sign_in() -> None:
    assert sign_in(make_user(Role.CUSTOMER).email, PASSWORD) == (200, False)


@pytest.mark.parametrize("role", [Role.STORE_OWNER, Role.STAFF, Role.CUSTOMER])
def test_x2_other_roles_reach_no_page_of_the_admin(role: Role) -> None:
    client = Client()
    client.force_login(make_user(role))
    for path in ("/admin/", "/admin/accounts/user/"):
        assert client.get(path).status_code == 302


def test_x2_a_demoted_admin_is_signed_out_at_once(site: Client, admin_user: User) -> None:
    assert site.get("/admin/accounts/user/").status_code == 200
    User.objects.filter(pk=admin_user.pk).update(role=Role.STAFF)
    assert site.get("/admin/accounts/user/").status_code == 302


def test_x2_sign_ins_to_the_admin_are_limited_before_any_hash(hashes: type[CountingHasher]) -> None:
    statuses = [sign_in(f"user{number}@example.com", "wrong")[0] for number in range(15)]
    assert statuses == [200] * 10 + [429] * 5
    assert hashes.total == 10


def test_x2_a_limited_sign_in_gets_a_page(db: None) -> None:
    client = Client(raise_request_exception=False)
    for _ in range(11):
        answer = client.post("/admin/login/", {"username": "a@example.com", "password": "wrong"})
    assert answer.status_code == 429
    assert answer["Content-Type"].startswith("text/html")
    assert b"Too many requests: at most 10 are allowed." in answer.content
    assert answer["Retry-After"] == answer["X-RateLimit-Reset-After"]


def test_x2_the_admin_and_the_api_count_together(admin_user: User) -> None:
    for number in range(10):
        sign_in(admin_user.email, "wrong", address=f"192.0.2.{number}")
    answer = Client().post(
        "/api/token", {"email": admin_user.email, "password": PASSWORD}, content_type="application/json"
    )
    assert answer.status_code == 429


@pytest.mark.parametrize(
    "query",
    [
        "password__startswith=md5",
        "password__regex=.",
        "q=md5",
        "api_keys__secret_hash__startswith=a",
        "sign_ins__refresh_id__isnull=0",
    ],
)
def test_x2_users_cannot_be_searched_by_password(site: Client, query: str) -> None:
    answer = site.get(f"/admin/accounts/user/?{query}")
    assert answer.status_code in (302, 400) or answer.context["cl"].result_count == 0


@pytest.mark.parametrize("query", ["secret_hash__startswith=a", "user__password__startswith=md5", "q={hash}"])
def test_x2_keys_cannot_be_searched_by_hash(site: Client, user: User, query: str) -> None:
    key = create_api_key(user=user, name="k", now=timezone.now())[0]
    answer = site.get(f"/admin/accounts/apikey/?{query.format(hash=key.secret_hash)}")
    assert answer.status_code in (302, 400) or answer.context["cl"].result_count == 0


def test_x2_no_page_shows_a_hash(site: Client, user: User) -> None:
    key = create_api_key(user=user, name="k", now=timezone.now())[0]
    pages = [
        "/admin/",
        "/admin/accounts/user/",
        "/admin/accounts/user/?role=CUSTOMER",
        f"/admin/accounts/user/{user.pk}/change/",
        f"/admin/accounts/user/{user.pk}/password/",
        "/admin/accounts/user/add/",
        "/admin/accounts/apikey/",
        "/admin/accounts/apikey/?revoked_at__isempty=1",
        f"/admin/accounts/apikey/{key.pk}/change/",
        "/admin/accounts/apikey/add/",
    ]
    for page in pages:
        answer = site.get(page)
        assert (page, answer.status_code) == (page, 200)
        assert user.password not in answer.text
        assert user.password.split("$")[2] not in answer.text
        assert key.secret_hash not in answer.text


def test_users_and_keys_are_searched_by_email_and_name(site: Client, user: User) -> None:
    create_api_key(user=user, name="laptop", now=timezone.now())
    assert user.email in site.get("/admin/accounts/user/?q=ada").text
    assert "laptop" in site.get("/admin/accounts/apikey/?q=lapt").text


def test_an_admin_creates_a_user_who_can_sign_in(site: Client) -> None:
    form = {
        "email": "New@Example.com",
        "name": "New",
        "role": Role.STAFF,
        "password1": PASSWORD,
        "password2": PASSWORD,
    }
    answer = site.post("/admin/accounts/user/add/", form)
    assert answer.status_code == 302
    user = User.objects.get(email="new@example.com")
    assert (user.role, user.name) == (Role.STAFF, "New")
    assert is_accepted(signed_in(user).access)


@pytest.mark.parametrize(
    "wrong", [{"password1": "12345678", "password2": "12345678"}, {"password2": "other"}, {"email": "ADA@example.com"}]
)
def test_an_invalid_form_creates_no_user(site: Client, user: User, wrong: dict[str, str]) -> None:
    form = {"email": "new@example.com", "name": "New", "role": "STAFF", "password1": PASSWORD, "password2": PASSWORD}
    assert site.post("/admin/accounts/user/add/", form | wrong).status_code == 200
    assert User.objects.count() == 2


def test_changing_a_role_revokes_the_users_tokens(site: Client, user: User) -> None:
    pair = signed_in(user)
    form = {"email": user.email, "name": "Ada", "role": "STAFF", "is_active": "on"}
    assert site.post(f"/admin/accounts/user/{user.pk}/change/", form).status_code == 302
    assert User.objects.get(pk=user.pk).role == Role.STAFF
    assert not is_accepted(pair.access)


def test_the_last_super_admin_cannot_be_demoted_or_deactivated(site: Client, admin_user: User) -> None:
    form = {"email": admin_user.email, "name": "Root", "role": "STAFF", "is_active": "on"}
    answer = site.post(f"/admin/accounts/user/{admin_user.pk}/change/", form)
    assert answer.status_code == 200
    assert "last active super admin" in answer.text
    action = {"action": "deactivate", "_selected_action": [admin_user.pk]}
    answer = site.post("/admin/accounts/user/", action, follow=True)
    assert "last active super admin" in answer.text
    assert User.objects.get(pk=admin_user.pk).is_staff


def test_setting_a_password_revokes_the_users_tokens(site: Client, user: User) -> None:
    pair = signed_in(user)
    form = {"password1": "a new good passphrase", "password2": "a new good passphrase"}
    assert site.post(f"/admin/accounts/user/{user.pk}/password/", form).status_code == 302
    assert not is_accepted(pair.access)
    assert User.objects.get(pk=user.pk).check_password("a new good passphrase")


def test_changing_the_own_password_revokes_the_admins_tokens(site: Client, admin_user: User) -> None:
    pair = signed_in(admin_user)
    new = "a new good passphrase"
    form = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}
    assert site.post("/admin/password_change/", form).status_code == 302
    assert not is_accepted(pair.access)


def test_the_deactivate_action_revokes_tokens(site: Client, user: User) -> None:
    pair = signed_in(user)
    site.post("/admin/accounts/user/", {"action": "deactivate", "_selected_action": [user.pk]})
    assert not User.objects.get(pk=user.pk).is_active
    assert not is_accepted(pair.access)


def test_users_and_keys_cannot_be_deleted(site: Client, user: User) -> None:
    key = create_api_key(user=user, name="k", now=timezone.now())[0]
    assert site.post(f"/admin/accounts/user/{user.pk}/delete/", {"post": "yes"}).status_code == 403
    assert site.post(f"/admin/accounts/apikey/{key.pk}/delete/", {"post": "yes"}).status_code == 403
    site.post("/admin/accounts/user/", {"action": "delete_selected", "_selected_action": [user.pk], "post": "yes"})
    assert User.objects.filter(pk=user.pk).exists()


def test_a5_a_key_made_in_the_admin_is_shown_once_and_stored_nowhere(site: Client, user: User) -> None:
    form = {"user": user.pk, "name": "laptop", "expires_at_0": "", "expires_at_1": ""}
    answer = site.post("/admin/accounts/apikey/add/", form, follow=True)
    found = RAW_KEY.search(answer.text)
    assert found is not None
    raw = found.group()
    assert authenticate(raw).user == user
    assert ApiKey.objects.get().permissions is None
    assert raw not in site.get("/admin/accounts/apikey/").text
    assert not any(raw in str(session.get_decoded()) for session in Session.objects.all())


def test_the_form_refuses_permissions_that_the_role_lacks(site: Client, user: User) -> None:
    form = {"user": user.pk, "name": "laptop", "permissions": ["manage_models"]}
    answer = site.post("/admin/accounts/apikey/add/", form)
    assert answer.status_code == 200
    assert "does not have all of these" in answer.text
    assert not ApiKey.objects.exists()


def test_the_revoke_action_revokes_keys(site: Client, user: User) -> None:
    key, raw = create_api_key(user=user, name="k", now=timezone.now())
    site.post("/admin/accounts/apikey/", {"action": "revoke", "_selected_action": [key.pk]})
    assert not is_accepted(raw)


def test_only_the_limits_of_a_key_are_edited(site: Client, user: User) -> None:
    key, raw = create_api_key(user=user, name="k", permissions=[], now=timezone.now())
    page = f"/admin/accounts/apikey/{key.pk}/change/"
    edited = {"name": "other", "user": user.pk, "permissions": ["run_inference"]}
    answer = site.post(page, edited | {"request_limit": "7", "token_limit": "9000", "concurrency_limit": ""})
    assert answer.status_code == 302
    key.refresh_from_db()
    assert (key.name, key.permissions) == ("k", [])
    assert (key.request_limit, key.token_limit, key.concurrency_limit) == (7, 9000, None)
    assert key.has_own_limits
    assert "7 requests, 9,000 tokens<" in site.get("/admin/accounts/apikey/").text
    assert is_accepted(raw)

    assert site.post(page, {"request_limit": "-1"}).status_code == 200
    assert site.post(page, {"request_limit": "", "token_limit": "", "concurrency_limit": ""}).status_code == 302
    key.refresh_from_db()
    assert not key.has_own_limits


def test_createsuperuser_creates_a_super_admin_who_can_sign_in(db: None) -> None:
    user = User.objects.create_superuser(email="First@Example.com", name="First", password=PASSWORD)
    assert user.is_superuser
    assert sign_in("first@example.com", PASSWORD) == (302, True)
