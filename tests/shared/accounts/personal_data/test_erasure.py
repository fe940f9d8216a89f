"""Personal data: every column about a person has a rule, and the rules of the accounts."""

import json
from io import StringIO

import pytest
from django.apps import apps
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.core.management import CommandError, call_command
from django.db import models
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from shared.accounts.models import ApiKey, SignIn, User
from shared.accounts.personal_data.erasure import erase_person
from shared.accounts.personal_data.export import export_person
from shared.accounts.services import create_api_key, create_user, sign_in
from shared.api.errors import ApiError
from shared.audit.models import AuditEntry
from shared.personal_data import personal_data_rules
from tests.shared.accounts.conftest import ADDRESS, PASSWORD, is_accepted, make_user, signed_in

# Columns that could tell who somebody is without referring to a user, and why no rule is about them.
COLUMNS_WITHOUT_RULE = {
    "accounts.User.email": "the account itself",
    "accounts.User.email_verified_at": "the account itself",
    "commerce_orders.Order.billing_address": "by the order's customer",
    "commerce_orders.Order.shipping_address": "by the order's customer",
    "commerce_orders.Order.customer_contact": "by the order's customer",
    "commerce_addresses.Address.address": "by the address's customer",
    "commerce_shops.Shop.address": "a shop's, whose owner is not erased",
    "commerce_analytics.LedgerEntry.customer_id": "an id, behind which nobody is left",
    "commerce_analytics.FirstOrder.customer_id": "an id, behind which nobody is left",
    "commerce_moderation.Notice.mail_due_at": "a time",
    "commerce_moderation.Notice.mail_attempts": "a count",
    "commerce_moderation.Notice.mailed_at": "a time",
    "commerce_analytics.LedgerEntry.customers": "a count",
    "commerce_analytics.PeriodRollup.customers": "a count",
    "commerce_analytics.SalesReport.customers": "ids and sums",
}
PERSONAL_WORDS = ("email", "mail", "phone", "contact", "address", "customer", "user_id", "person", "ip")


def label(model: type[models.Model], field: str) -> str:
    return f"{model._meta.label}.{field}"


def test_every_column_that_refers_to_a_user_has_a_rule_and_every_rule_a_column() -> None:
    """Fail for a new table with a user until the `personal_data.py` of its app has a rule."""
    relations = [
        field for field in User._meta.get_fields(include_hidden=True) if field.auto_created and field.is_relation
    ]
    columns = {label(relation.related_model, relation.field.name) for relation in relations}
    assert {label(rule.model, rule.field) for rule in personal_data_rules() if not rule.by_email} == columns
    assert len(columns) > 5


def test_every_column_with_a_personal_name_has_a_rule_or_a_reason() -> None:
    ruled = {label(rule.model, rule.field) for rule in personal_data_rules()}
    found = {
        label(model, field.name)
        for model in apps.get_models()
        if model.__module__.startswith(("shared.", "commerce.", "inference."))
        for field in model._meta.concrete_fields
        if any(word in field.name.split("_") or field.name == word for word in PERSONAL_WORDS)
        or isinstance(field, models.EmailField | models.GenericIPAddressField)
    }
    assert found - ruled - set(COLUMNS_WITHOUT_RULE) == set()


def test_every_rule_that_retains_rows_has_a_reason() -> None:
    assert [rule for rule in personal_data_rules() if rule.erase is None and not rule.reason] == []


@pytest.fixture
def person(user: User) -> User:
    signed_in(user)
    create_api_key(user=user, name="Ada's laptop", now=timezone.now())
    return user


def erase(person: User, actor: User | None = None) -> None:
    erase_person(user=person, actor=actor, now=timezone.now())


def test_erasure_clears_the_account_and_revokes_its_credentials(person: User, admin_user: User) -> None:
    key, raw = create_api_key(user=person, name="Ada's phone", now=timezone.now())
    access = signed_in(person).access

    erase(person, admin_user)

    assert (person.email, person.name) == (f"erased-{person.pk}@erased.invalid", "Erased")
    assert not person.is_active
    assert not person.has_usable_password()
    assert not is_accepted(access)
    assert not is_accepted(raw)
    assert not SignIn.objects.filter(user=person).exists()
    assert set(person.api_keys.values_list("name", "secret_hash")) == {("", "")}
    assert not ApiKey.objects.filter(user=person, revoked_at=None).exists()
    assert ApiKey.objects.filter(pk=key.pk).exists()  # for the ledger


def test_erasure_is_audited_by_id(person: User, admin_user: User) -> None:
    erase(person, admin_user)
    entry = AuditEntry.objects.get(action="accounts.erased")
    assert (entry.actor, entry.target_type, entry.target_id) == (admin_user, "User", person.pk)
    assert "ada" not in json.dumps(entry.details).lower()


def test_erasure_removes_the_email_from_the_admin_log(person: User, admin_user: User) -> None:
    kind = ContentType.objects.get_for_model(User)
    LogEntry.objects.create(
        user=admin_user, content_type=kind, object_id=str(person.pk), object_repr=person.email, action_flag=CHANGE
    )
    others = [f"key of {person.email}", f"key (ci) of x{person.email}", f"{person.email}.example"]
    for told in others:
        LogEntry.objects.create(user=admin_user, content_type=None, object_repr=told, action_flag=CHANGE)
    erase(person, admin_user)
    told = [entry.object_repr for entry in LogEntry.objects.order_by("pk")]
    assert told == [f"user {person.pk}", "erased", *others[1:]]


def test_an_erased_person_can_register_again_with_the_same_email(person: User) -> None:
    email = person.email
    erase(person)
    again = create_user(email=email, name="Ada", password=PASSWORD, role=person.role, now=timezone.now())
    assert again.pk != person.pk
    assert sign_in(email=email, password=PASSWORD, address=ADDRESS, now=timezone.now()).user == again


def test_erasing_twice_is_idempotent(person: User) -> None:
    erase(person)
    erase(person)
    assert person.email == f"erased-{person.pk}@erased.invalid"


def test_the_last_super_admin_cannot_be_erased(admin_user: User) -> None:
    signed_in(admin_user)
    with pytest.raises(ApiError, match="last active super admin"):
        erase(admin_user)
    admin_user.refresh_from_db()
    assert admin_user.is_active
    assert SignIn.objects.filter(user=admin_user).count() == 1
    assert not AuditEntry.objects.filter(action="accounts.erased").exists()


def test_an_export_contains_every_rule_and_no_secret(person: User) -> None:
    stored = ApiKey.objects.get()

    text = "".join(export_person(user=person))

    told = json.loads(text)
    assert told["account"]["email"] == "ada@example.com"
    secrets = {"password", "token_version"}
    assert told["account"].keys() == {field.attname for field in User._meta.concrete_fields} - secrets
    assert [key["name"] for key in told["accounts.ApiKey.user"]] == ["Ada's laptop"]
    assert len(told["accounts.SignIn.user"]) == 1
    assert set(told) >= {label(rule.model, rule.field) for rule in personal_data_rules()}
    assert stored.secret_hash not in text
    assert person.password not in text


def test_an_export_contains_many_rows(person: User) -> None:
    for number in range(450):
        create_api_key(user=person, name=f"key {number}", now=timezone.now())
    told = json.loads("".join(export_person(user=person)))
    assert len(told["accounts.ApiKey.user"]) == 451


def test_an_export_contains_no_data_of_others(person: User) -> None:
    other = make_user(email="eve@example.com")
    create_api_key(user=other, name="Eve's", now=timezone.now())
    text = "".join(export_person(user=person))
    assert "Eve" not in text
    assert "eve@" not in text


def test_the_commands_find_users_by_id_and_by_email(person: User) -> None:
    by_id, by_email = StringIO(), StringIO()
    call_command("export_person", str(person.pk), stdout=by_id)
    call_command("export_person", " ADA@example.com", stdout=by_email)
    assert json.loads(by_id.getvalue()) == json.loads(by_email.getvalue())

    call_command("erase_person", str(person.pk), "--yes", stdout=StringIO())
    person.refresh_from_db()
    assert person.name == "Erased"
    with pytest.raises(CommandError, match="no user"):
        call_command("erase_person", "ada@example.com", "--yes")


def test_erase_person_asks_for_confirmation(person: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.input", lambda prompt: "no")
    with pytest.raises(CommandError, match="Nothing was erased"):
        call_command("erase_person", str(person.pk))
    person.refresh_from_db()
    assert person.name == "Ada"


@pytest.fixture
def in_admin(admin_user: User, settings: Settings) -> Client:
    settings.ROOT_URLCONF = f"{settings.PROJECT}.config.urls"
    client = Client()
    client.force_login(admin_user)
    return client


def act(client: Client, action: str, *people: User, **more: str):
    chosen = {"action": action, "_selected_action": [str(one.pk) for one in people]} | more
    return client.post("/admin/accounts/user/", chosen, follow=True)


def test_the_admin_exports_one_user_as_a_file(in_admin: Client, person: User, admin_user: User) -> None:
    answer = act(in_admin, "export", person)
    assert json.loads(b"".join(answer.streaming_content))["account"]["id"] == person.pk
    assert answer.headers["Content-Disposition"] == f'attachment; filename="person-{person.pk}.json"'
    assert "Select exactly one user" in act(in_admin, "export", person, admin_user).content.decode()


def test_the_admin_erases_after_confirmation(in_admin: Client, person: User, admin_user: User) -> None:
    asked = act(in_admin, "erase", person)
    assert "This cannot be undone" in asked.content.decode()
    assert User.objects.filter(name="Ada", pk=person.pk).exists()

    done = act(in_admin, "erase", person, confirmed="yes")

    assert f"User {person.pk} is erased here" in done.content.decode()
    assert User.objects.get(pk=person.pk).name == "Erased"
    assert AuditEntry.objects.get(action="accounts.erased").actor == admin_user
    refused = act(in_admin, "erase", admin_user, confirmed="yes")
    assert "last active super admin" in refused.content.decode()
