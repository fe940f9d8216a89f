"""The second factor: codes at every sign-in, recovery codes, its admin page, and the setting that requires it."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pyotp
import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone
from pytest_django import Settings
from structlog.testing import capture_logs

from shared.accounts.models import SecondFactor, User
from shared.accounts.roles import Role
from shared.accounts.services import change_user, sign_in
from shared.accounts.sign_ins import second_factor
from shared.accounts.sign_ins.second_factor import SecondFactorRequired, check_second_factor
from shared.api.errors import ApiError, ValidationFailed
from shared.audit.models import AuditEntry
from shared.encryption import decrypt
from tests.shared.accounts.conftest import ADDRESS, PASSWORD, is_accepted, make_user, signed_in

PAGE = "/admin/accounts/user/second-factor/"
NOW = timezone.now()


@pytest.fixture
def admin(db: None, settings: Settings) -> User:
    settings.ROOT_URLCONF = f"{settings.PROJECT}.config.urls"
    return make_user(Role.SUPER_ADMIN)


def code_of(user: User, at: datetime) -> str:
    return pyotp.TOTP(decrypt(SecondFactor.objects.get(user=user).secret)).at(at)


def turn_on(user: User) -> list[str]:
    """Turn on the user's factor, as of two minutes ago, and return the recovery codes."""
    before = NOW - timedelta(minutes=2)
    second_factor.begin_second_factor(user=user)
    return second_factor.turn_on_second_factor(user=user, code=code_of(user, before), now=before)


def token(user: User, **body: Any) -> Any:
    body = {"email": user.email, "password": PASSWORD} | body
    client = Client(raise_request_exception=False)
    return client.post("/api/token", body, content_type="application/json", REMOTE_ADDR=ADDRESS)


def admin_client(user: User, otp: str = "") -> Client:
    client = Client(raise_request_exception=False)
    client.post("/admin/login/?next=/admin/", {"username": user.email, "password": PASSWORD, "otp": otp})
    return client


def is_signed_in(client: Client) -> bool:
    return client.get("/admin/accounts/user/").status_code == 200


def test_a_code_is_needed_from_the_moment_the_factor_is_on(user: User) -> None:
    second_factor.begin_second_factor(user=user)
    assert token(user).status_code == 200
    earlier = signed_in(user)

    turn_on(user)

    assert not is_accepted(earlier.access)
    missing = token(user)
    assert (missing.status_code, missing.json()["code"]) == (401, "second_factor_required")
    assert "token" not in missing.json()
    assert token(user, otp="000000").status_code == 401
    assert token(user, otp=code_of(user, timezone.now())).status_code == 200


def test_a_wrong_password_does_not_tell_of_the_factor(user: User) -> None:
    turn_on(user)
    wrong, unknown = token(user, password="a lamp"), token(user, email="nobody@example.com")
    assert (wrong.status_code, unknown.status_code) == (401, 401)
    assert wrong.json()["message"] == unknown.json()["message"]


def test_a_code_works_once(user: User) -> None:
    turn_on(user)
    code = code_of(user, NOW)
    check_second_factor(user=user, code=f"{code[:3]} {code[3:]}", now=NOW)
    for used in (code, code_of(user, NOW - timedelta(seconds=30))):
        with pytest.raises(SecondFactorRequired, match="wrong, expired or used"):
            check_second_factor(user=user, code=used, now=NOW)


@pytest.mark.parametrize(("seconds", "is_valid"), [(-90, False), (-30, True), (30, True), (90, False)])
def test_a_code_is_valid_for_a_clock_that_is_half_a_minute_off(user: User, seconds: int, is_valid: bool) -> None:
    turn_on(user)
    code = code_of(user, NOW + timedelta(seconds=seconds))
    if is_valid:
        check_second_factor(user=user, code=code, now=NOW)
    else:
        with pytest.raises(SecondFactorRequired):
            check_second_factor(user=user, code=code, now=NOW)


@pytest.mark.parametrize("code", ["", " ", "0", "١٢٣٤٥٦", "\0", "x" * 64, "1e5", "\ud800"])
def test_no_other_text_is_a_code(user: User, code: str) -> None:
    turn_on(user)
    with pytest.raises(SecondFactorRequired):
        check_second_factor(user=user, code=code, now=NOW)


def test_recovery_codes_are_hashed_and_work_once(user: User) -> None:
    codes = turn_on(user)
    assert len(set(codes)) == second_factor.RECOVERY_CODES
    assert not set(codes) & set(SecondFactor.objects.get(user=user).recovery_codes)
    assert sign_in(email=user.email, password=PASSWORD, otp=codes[0].upper(), address=ADDRESS, now=NOW).user == user
    with pytest.raises(SecondFactorRequired):
        check_second_factor(user=user, code=codes[0], now=NOW)
    assert len(SecondFactor.objects.get(user=user).recovery_codes) == second_factor.RECOVERY_CODES - 1


def test_new_recovery_codes_replace_the_old_ones(user: User) -> None:
    codes = turn_on(user)
    renewed = second_factor.renew_recovery_codes(user=user, code=codes[0], now=NOW)
    with pytest.raises(SecondFactorRequired):
        check_second_factor(user=user, code=codes[1], now=NOW)
    check_second_factor(user=user, code=renewed[1], now=NOW)


def test_after_a_change_of_the_key_recovery_codes_still_work(user: User, settings: Settings) -> None:
    codes = turn_on(user)
    code = code_of(user, NOW)
    settings.SECRET_KEY = "another key " * 5
    with pytest.raises(SecondFactorRequired):
        check_second_factor(user=user, code=code, now=NOW)
    check_second_factor(user=user, code=codes[0], now=NOW)


@pytest.mark.parametrize("change", [second_factor.turn_on_second_factor, second_factor.turn_off_own_second_factor])
def test_a_change_needs_a_factor_in_the_right_state(user: User, change: Callable[..., Any]) -> None:
    with pytest.raises(ApiError) as refused:
        change(user=user, code="000000", now=NOW)
    assert refused.value.problem.status == 409
    turn_on(user)
    with pytest.raises(ApiError) as refused:
        second_factor.begin_second_factor(user=user)
    assert refused.value.problem.status == 409
    with pytest.raises(ValidationFailed):
        second_factor.turn_off_own_second_factor(user=user, code="000000", now=NOW)


def test_codes_on_the_page_are_limited(user: User, settings: Settings) -> None:
    turn_on(user)  # the first attempt of this minute
    for _ in range(settings.LOGIN_LIMIT - 1):
        with pytest.raises(ValidationFailed):
            second_factor.turn_off_own_second_factor(user=user, code="000000", now=NOW)
    with pytest.raises(ApiError) as refused:
        second_factor.turn_off_own_second_factor(user=user, code="000000", now=NOW)
    assert refused.value.problem.status == 429


def test_the_page_turns_the_factor_on_and_off_and_keeps_this_session_only(admin: User) -> None:
    client, other = admin_client(admin), admin_client(admin)
    assert "Set up" in client.get(PAGE).content.decode()

    shown = client.post(PAGE, {"action": "begin"}).content.decode()
    key = decrypt(SecondFactor.objects.get(user=admin).secret)
    assert key in shown
    assert "<svg" in shown
    wrong = client.post(PAGE, {"action": "turn_on", "otp": "000000"}).content.decode()
    assert key in wrong
    assert "wrong, expired or used" in wrong
    confirmed = client.post(PAGE, {"action": "turn_on", "otp": pyotp.TOTP(key).now()})
    codes = re.findall(r"<li>([0-9a-f]{16}-[0-9a-f]{16})</li>", confirmed.content.decode())

    assert len(codes) == second_factor.RECOVERY_CODES
    assert "no-store" in confirmed["Cache-Control"]
    assert is_signed_in(client)
    assert not is_signed_in(other)
    assert not is_signed_in(admin_client(admin))
    assert is_signed_in(admin_client(admin, codes[0]))
    state = client.get(PAGE).content.decode()
    assert "9 recovery codes are left" in state
    assert key not in state
    assert client.post(PAGE, {"action": "turn_off", "otp": codes[1]}).status_code == 302
    assert is_signed_in(client)
    assert is_signed_in(admin_client(admin))


def test_the_sign_in_page_asks_for_the_code(admin: User) -> None:
    turn_on(admin)
    form = {"username": admin.email, "password": PASSWORD}
    page = Client().post("/admin/login/", form).content.decode()
    assert "authenticator app" in page
    assert 'autocomplete="one-time-code"' in page
    assert "has a second factor" in page
    assert is_signed_in(admin_client(admin, code_of(admin, timezone.now())))


def test_only_who_has_signed_in_to_a_page_has_the_page(admin: User) -> None:
    owner, customer = make_user(Role.STORE_OWNER, "owner@example.com"), make_user(Role.CUSTOMER, "customer@example.com")
    assert admin_client(customer).get(PAGE).status_code == 302
    assert Client().post(PAGE, {"action": "begin"}).status_code == 302
    assert not SecondFactor.objects.exists()

    client = Client()
    client.force_login(owner)  # as by the dashboard
    assert "<svg" in client.post(PAGE, {"action": "begin"}).content.decode()


def test_a_key_that_another_tab_has_replaced_is_not_turned_on(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    second_factor.begin_second_factor(user=user)
    code = code_of(user, NOW)
    renew = second_factor._uses_code

    def used_then_replaced(*arguments: Any) -> bool:
        was_used = renew(*arguments)
        second_factor.begin_second_factor(user=user)
        return was_used

    monkeypatch.setattr(second_factor, "_uses_code", used_then_replaced)
    with pytest.raises(ApiError, match="Begin again"):
        second_factor.turn_on_second_factor(user=user, code=code, now=NOW)
    assert not second_factor.has_second_factor(user)


def test_a_key_of_another_secret_is_set_up_again(admin: User, settings: Settings) -> None:
    client = admin_client(admin)
    client.post(PAGE, {"action": "begin"})
    SecondFactor.objects.update(secret="of an unknown key")
    page = client.post(PAGE, {"action": "turn_on", "otp": "000000"})
    assert (page.status_code, "Set up" in page.content.decode()) == (200, True)


def test_codes_are_limited_a_day(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_factor, "CODES_A_DAY", 3)
    turn_on(user)
    for _ in range(3):
        with pytest.raises(SecondFactorRequired):
            check_second_factor(user=user, code="000000", now=NOW)
    with pytest.raises(ApiError) as refused:
        check_second_factor(user=user, code=code_of(user, NOW), now=NOW)
    assert refused.value.problem.status == 429


def test_a_session_does_not_turn_off_its_own_factor_without_a_code(admin: User) -> None:
    client = admin_client(admin, turn_on(admin)[0])
    client.post("/admin/accounts/user/", {"action": "turn_off_second_factor", "_selected_action": [admin.pk]})
    assert second_factor.has_second_factor(admin)


def test_a_lost_factor_is_turned_off_by_an_administrator_and_noted(admin: User) -> None:
    owner = make_user(Role.STORE_OWNER, "owner@example.com")
    turn_on(owner)
    form = {"action": "turn_off_second_factor", "_selected_action": [owner.pk]}
    admin_client(admin).post("/admin/accounts/user/", form)

    sign_in(email=owner.email, password=PASSWORD, address=ADDRESS, now=NOW)
    entries = AuditEntry.objects.filter(target_id=owner.pk).order_by("pk").values_list("action", "actor_id")
    assert list(entries) == [("second_factor.turn_on", owner.pk), ("second_factor.turn_off", admin.pk)]


def test_the_command_turns_off_the_factor_of_the_last_administrator(admin: User) -> None:
    turn_on(admin)
    output = StringIO()
    call_command("turn_off_second_factor", admin.email, stdout=output)
    assert output.getvalue() == f"The second factor of {admin.email} is off.\n"
    sign_in(email=admin.email, password=PASSWORD, address=ADDRESS, now=NOW)
    with pytest.raises(CommandError, match="has no second factor"):
        call_command("turn_off_second_factor", admin.email)


def test_a_required_factor_is_set_up_before_any_page_of_the_admin(admin: User, settings: Settings) -> None:
    settings.REQUIRE_SECOND_FACTOR = True
    settings.MIDDLEWARE = [
        *settings.MIDDLEWARE,
        "shared.accounts.middleware.second_factor.RequireSecondFactorMiddleware",
    ]
    assert token(admin).status_code == 403
    client = admin_client(admin)
    for path in ("/admin/", "/admin/accounts/user/", "/admin/audit/auditentry/"):
        assert client.get(path)["Location"] == PAGE
    assert "requires one" in client.get(PAGE).content.decode()

    client.post(PAGE, {"action": "begin"})
    client.post(PAGE, {"action": "turn_on", "otp": code_of(admin, timezone.now())})

    assert is_signed_in(client)
    following = code_of(admin, timezone.now() + timedelta(seconds=30))
    assert token(admin, otp=following).status_code == 200


def test_a_new_role_ends_sessions_of_the_admin(admin: User) -> None:
    make_user(Role.SUPER_ADMIN, "second@example.com")
    client = admin_client(admin)
    assert is_signed_in(client)
    change_user(user=admin, name="Ada", email=admin.email, role=Role.CUSTOMER, is_active=True)
    change_user(user=admin, name="Ada", email=admin.email, role=Role.SUPER_ADMIN, is_active=True)
    assert not is_signed_in(client)


def test_the_log_says_which_factor_a_sign_in_used_or_lacked(user: User) -> None:
    recovery_code = turn_on(user)[0]

    with capture_logs() as lines:
        for otp in ("000000", code_of(user, timezone.now()), recovery_code):
            token(user, otp=otp)

    assert [(line["event"], line["factor"]) for line in lines if line["event"].startswith("sign_in_")] == [
        ("sign_in_refused", "second"),
        ("sign_in_accepted", "authenticator"),
        ("sign_in_accepted", "recovery_code"),
    ]
