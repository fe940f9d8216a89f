"""Random walk of two customers through the addresses of both, compared with a model."""

from typing import Any

from django.test import Client
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.conftest import bearer, make_user
from tests.commerce.state_machines import JSON, NAMES, TEXT, Walk, ask, walk

PEOPLE = st.sampled_from([0, 1])
TYPES = st.sampled_from(["billing", "shipping"])
ADDRESSES = st.dictionaries(TEXT, JSON, min_size=1, max_size=3)
CHANGES = st.fixed_dictionaries(
    {}, optional={"title": NAMES, "type": TYPES, "default": st.booleans(), "address": ADDRESSES}
)
PICK = st.integers(0, 1000)


class AddressWalk(Walk):
    """`model`: id -> whose, and the record's own fields."""

    @initialize()
    def two_customers(self) -> None:
        self.model: dict[int, tuple[int, dict[str, Any]]] = {}
        self.users: list[User] = [make_user(Role.CUSTOMER, name) for name in ("one", "two")]
        self.clients = [Client(headers=bearer(user)) for user in self.users]

    @rule(person=PEOPLE, named=PEOPLE, title=NAMES, type_=TYPES, default=st.booleans(), address=ADDRESSES)
    def add(self, person: int, named: int, title: str, type_: str, default: bool, address: dict[str, Any]) -> None:
        fields = {"title": title, "type": type_, "default": default, "address": address}
        status, told = ask(self.clients[person], "post", "addresses", fields | {"customer_id": self.users[named].pk})
        if person != named:
            assert (status, list(told["errors"])) == (422, ["customer_id"])
            return
        assert status == 201
        assert told["id"] not in self.model
        self.keep(told["id"], person, fields)

    @precondition(lambda self: self.model)
    @rule(person=PEOPLE, pick=PICK, changes=CHANGES)
    def change(self, person: int, pick: int, changes: dict[str, Any]) -> None:
        identity, (whose, fields) = self.one(pick)
        status, told = ask(self.clients[person], "put", f"addresses/{identity}", changes)
        if person != whose:
            assert status == 404
            return
        assert status == 200
        self.keep(identity, whose, fields | changes)
        assert self.fields_of(told) == self.model[identity][1]

    @precondition(lambda self: self.model)
    @rule(person=PEOPLE, pick=PICK, path=st.sampled_from(["address", "addresses"]))
    def delete(self, person: int, pick: int, path: str) -> None:
        identity, (whose, _) = self.one(pick)
        status, told = ask(self.clients[person], "delete", f"{path}/{identity}")
        if person != whose:
            assert status == 404
            return
        assert (status, told) == (200, True)
        del self.model[identity]
        assert ask(self.clients[person], "get", f"addresses/{identity}")[0] == 404

    @precondition(lambda self: self.model)
    @rule(person=PEOPLE, pick=PICK)
    def read(self, person: int, pick: int) -> None:
        identity, (whose, fields) = self.one(pick)
        status, told = ask(self.clients[person], "get", f"addresses/{identity}")
        assert status == (200 if person == whose else 404)
        if person == whose:
            assert self.fields_of(told) == fields

    @invariant()
    def each_sees_their_own_and_all_of_it(self) -> None:
        for person, client in enumerate(getattr(self, "clients", [])):
            _, rows = ask(client, "get", "addresses")
            seen = {row["id"]: self.fields_of(row) for row in rows}
            assert seen == {identity: fields for identity, (whose, fields) in self.model.items() if whose == person}
            assert {row["customer_id"] for row in rows} <= {self.users[person].pk}

    def keep(self, identity: int, whose: int, fields: dict[str, Any]) -> None:
        if fields["default"]:
            for other, (owner, kept) in self.model.items():
                if owner == whose and kept["type"] == fields["type"] and other != identity:
                    kept["default"] = False
        self.model[identity] = (whose, fields)

    def one(self, pick: int) -> tuple[int, tuple[int, dict[str, Any]]]:
        known = sorted(self.model)
        return known[pick % len(known)], self.model[known[pick % len(known)]]

    @staticmethod
    def fields_of(record: dict[str, Any]) -> dict[str, Any]:
        return {name: record[name] for name in ("title", "type", "default", "address")}


def test_addresses_agree_with_the_model_after_random_steps_of_two_customers(db: None):
    walk(AddressWalk)
