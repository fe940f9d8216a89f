"""Stateful test: two users upload, read and delete in any order, compared with a dictionary after each step."""

from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from commerce.attachments.models import Attachment, ScheduledDeletion
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.attachments.conftest import files_in
from tests.commerce.attachments.samples import image_file, pdf_file
from tests.commerce.conftest import bearer, make_user

GOOD = {"a.png": image_file(width=8, height=8), "b.pdf": pdf_file(), "c.gif": image_file("GIF", 8, 8)}
BAD = {"d.png": b"no picture", "e.pdf": b"%PDF-1.4 cut"}
USERS = ("first", "second")


class Attachments(RuleBasedStateMachine):
    media_root: Path

    @initialize()
    def begin(self) -> None:
        Attachment.objects.all().delete()
        ScheduledDeletion.objects.all().delete()
        for path in sorted(self.media_root.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        self.clients = {name: Client(headers=bearer(_user(name))) for name in USERS}
        self.model: dict[int, tuple[str, str]] = {}  # id -> owner, name
        self.deleted: list[int] = []

    @rule(by=st.sampled_from(USERS), names=st.lists(st.sampled_from([*GOOD, *BAD]), min_size=1, max_size=3))
    def upload(self, by: str, names: list[str]) -> None:
        content = GOOD | BAD
        sent = [SimpleUploadedFile(name, content[name]) for name in names]
        response = self.clients[by].post("/api/attachments", {"attachment[]": sent})
        if set(names) & set(BAD):
            assert response.status_code == 422
            return
        assert response.status_code == 200
        self.model |= {record["id"]: (by, name) for record, name in zip(response.json(), names, strict=True)}

    @rule(by=st.sampled_from(USERS), choice=st.integers(0, 20))
    def delete(self, by: str, choice: int) -> None:
        pk = self._pick(choice)
        is_theirs = self.model.get(pk, ("", ""))[0] == by
        response = self.clients[by].delete(f"/api/attachments/{pk}")
        assert response.status_code == (200 if is_theirs else 404)
        if is_theirs:
            del self.model[pk]
            self.deleted.append(pk)

    @rule(choice=st.integers(0, 20))
    def read(self, choice: int) -> None:
        pk = self._pick(choice)
        response = Client().get(f"/api/attachments/{pk}")
        assert response.status_code == (200 if pk in self.model else 404)
        if pk in self.model:
            assert response.json()["original"].endswith("/" + self.model[pk][1])

    @rule(choice=st.integers(0, 20), by=st.sampled_from(USERS))
    def put(self, choice: int, by: str) -> None:
        assert self.clients[by].put(f"/api/attachments/{self._pick(choice)}").json() is False

    @invariant()
    def list_and_disk_agree_with_the_model(self) -> None:
        listed = Client().get("/api/attachments", {"limit": 100}).json()["data"]
        assert [record["id"] for record in listed] == sorted(self.model, reverse=True)[:100]
        images = sum(1 for _, name in self.model.values() if not name.endswith(".pdf"))
        assert len(files_in(self.media_root)) == len(self.model) + images
        assert not ScheduledDeletion.objects.exists()

    def _pick(self, choice: int) -> int:
        ids = [*sorted(self.model), *self.deleted, 10**9]
        return ids[choice % len(ids)]


def _user(name: str) -> User:
    return User.objects.filter(name=f"{name} CUSTOMER").first() or make_user(Role.CUSTOMER, name)


@pytest.mark.django_db(transaction=True)
@pytest.mark.timeout(600)
def test_attachments_agree_with_the_model_after_any_steps_of_two_users(media_root: Path):
    machine: Any = type("Attachments", (Attachments,), {"media_root": media_root})
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=10, stateful_step_count=12, deadline=None, suppress_health_check=checks, database=None
        ),
    )
