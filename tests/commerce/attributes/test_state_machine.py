"""Random walk of two owners through the attributes of both, compared with a model."""

from typing import Any

from django.test import Client
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from commerce.shops.models import Shop
from shared.accounts.roles import Role
from tests.commerce.conftest import bearer, make_user
from tests.commerce.state_machines import NAMES, Walk, ask, walk

PEOPLE = st.sampled_from([0, 1])
SHOPS = st.sampled_from([0, 1, 2])  # the first two belong to the first owner
LANGUAGES = st.sampled_from(["en", "de"])
VALUES = st.lists(st.fixed_dictionaries({"value": NAMES}, optional={"meta": NAMES}), max_size=4)
PICK = st.integers(0, 1000)


class AttributeWalk(Walk):
    """`model`: id -> the shop's number, name, slug, language, and the values by their ids."""

    @initialize()
    def two_owners(self) -> None:
        self.model: dict[int, dict[str, Any]] = {}
        owners = [make_user(Role.STORE_OWNER, name) for name in ("one", "two")]
        self.owner_of = [0, 0, 1]
        self.shops = [
            Shop.objects.create(owner=owners[owner], name=f"{number}", slug=f"s-{number}")
            for number, owner in enumerate(self.owner_of)
        ]
        self.clients = [Client(headers=bearer(owner)) for owner in owners]

    @rule(person=PEOPLE, shop=SHOPS, name=NAMES, language=LANGUAGES, values=VALUES)
    def add(self, person: int, shop: int, name: str, language: str, values: list[dict[str, str]]) -> None:
        sent = {"shop_id": self.shops[shop].pk, "name": name, "language": language, "values": values}
        status, told = ask(self.clients[person], "post", "attributes", sent)
        if self.owner_of[shop] != person:
            assert status == 403
            return
        assert status == 200
        assert told["id"] not in self.model
        assert not told["slug"].isdigit()
        self.model[told["id"]] = {"shop": shop, "name": name, "slug": told["slug"], "language": language, "values": {}}
        self.expect_new(told, values)

    @precondition(lambda self: self.model)
    @rule(person=PEOPLE, pick=PICK, name=NAMES)
    def rename(self, person: int, pick: int, name: str) -> None:
        identity, kept = self.one(pick)
        status, _ = ask(self.clients[person], "put", f"attributes/{identity}", {"name": name})
        assert status == (200 if self.owner_of[kept["shop"]] == person else 403)
        if status == 200:
            kept["name"] = name

    @precondition(lambda self: self.model)
    @rule(person=PEOPLE, pick=PICK, shop=SHOPS)
    def move(self, person: int, pick: int, shop: int) -> None:
        identity, kept = self.one(pick)
        status, _ = ask(self.clients[person], "put", f"attributes/{identity}", {"shop_id": self.shops[shop].pk})
        may = self.owner_of[kept["shop"]] == person == self.owner_of[shop]
        assert status == (200 if may else 403)
        if may:
            kept["shop"] = shop

    @precondition(lambda self: self.model)
    @rule(pick=PICK, drop=PICK, foreign=st.booleans(), new=VALUES, text=NAMES)
    def write_values(self, pick: int, drop: int, foreign: bool, new: list[dict[str, str]], text: str) -> None:
        identity, kept = self.one(pick)
        staying = [value for number, value in enumerate(sorted(kept["values"])) if (drop >> number) & 1]
        strangers = [value for other, row in self.model.items() if other != identity for value in row["values"]]
        taken = strangers[:1] if foreign else []
        listed: list[dict[str, Any]] = [{"id": value, "value": text} for value in [*staying, *taken]]
        status, told = ask(
            self.clients[self.owner_of[kept["shop"]]], "put", f"attributes/{identity}", {"values": [*listed, *new]}
        )
        assert status == (422 if taken else 200)
        if status == 200:
            kept["values"] = {value: (text, kept["values"][value][1]) for value in staying}
            self.expect_new(told, new)

    @precondition(lambda self: self.model)
    @rule(person=PEOPLE, pick=PICK)
    def delete(self, person: int, pick: int) -> None:
        identity, kept = self.one(pick)
        status, told = ask(self.clients[person], "delete", f"attributes/{identity}")
        if self.owner_of[kept["shop"]] != person:
            assert status == 403
            return
        assert (status, told["name"], len(told["values"])) == (200, kept["name"], len(kept["values"]))
        del self.model[identity]
        assert ask(self.clients[person], "get", f"attributes/{identity}")[0] == 404

    @invariant()
    def everybody_sees_everything_as_it_is(self) -> None:
        if not hasattr(self, "clients"):
            return
        rows = {row["id"]: row for language in ("en", "de") for row in self.listed(language)}
        assert rows.keys() == self.model.keys()
        for identity, kept in self.model.items():
            row = rows[identity]
            same = [
                other for other in self.model.values() if (other["shop"], other["slug"]) == (kept["shop"], kept["slug"])
            ]
            assert row["shop_id"] == self.shops[kept["shop"]].pk
            assert [row[name] for name in ("name", "slug", "language")] == [
                kept["name"],
                kept["slug"],
                kept["language"],
            ]
            assert row["translated_languages"] == sorted(other["language"] for other in same)
            told = {value["id"]: (value["value"], value["meta"]) for value in row["values"]}
            assert list(told) == sorted(told)
            assert told == kept["values"]
        assert len({(kept["slug"], kept["language"]) for kept in self.model.values()}) == len(self.model)

    @precondition(lambda self: self.model)
    @rule(pick=PICK)
    def read_by_slug(self, pick: int) -> None:
        identity, kept = self.one(pick)
        status, told = ask(Client(), "get", f"attributes/{kept['slug']}?language={kept['language']}")
        assert (status, told["id"]) == (200, identity)

    @staticmethod
    def listed(language: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = ask(Client(), "get", f"attributes?language={language}")[1]
        return rows

    def expect_new(self, told: dict[str, Any], new: list[dict[str, str]]) -> None:
        """New values come after the others, in the order of the request."""
        values = self.model[told["id"]]["values"]
        made = [value for value in told["values"] if value["id"] not in values]
        assert [(value["value"], value["meta"]) for value in made] == [
            (one["value"], one.get("meta", "")) for one in new
        ]
        values |= {value["id"]: (value["value"], value["meta"]) for value in made}

    def one(self, pick: int) -> tuple[int, dict[str, Any]]:
        known = sorted(self.model)
        return known[pick % len(known)], self.model[known[pick % len(known)]]


def test_attributes_agree_with_the_model_after_random_steps_of_two_owners(db: None):
    walk(AttributeWalk)
