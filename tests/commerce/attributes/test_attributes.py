"""The routes of attributes."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from commerce.attributes import services, values
from commerce.attributes.models import Attribute, AttributeValue
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.attributes.conftest import BLUE, NOW, RED, make_attribute, told
from tests.commerce.conftest import ApiClient, bearer


def send(client: Client, method: str, path: str, body: Any) -> Any:
    return getattr(client, method)(f"/api/{path}", body, content_type="application/json")


def test_an_attribute_is_created_with_its_values(mine: Client, shop: Shop):
    answer = send(mine, "post", "attributes", {"name": "Color", "shop_id": shop.pk, "values": [RED, BLUE]})

    assert answer.status_code == 200, answer.content
    attribute = Attribute.objects.get()
    first, second = attribute.values.all()
    at = attribute.created_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    record = {
        "id": attribute.pk,
        "name": "Color",
        "slug": "color",
        "shop_id": shop.pk,
        "language": "en",
        "translated_languages": ["en"],
        "values": [
            {"id": first.pk, "value": "Red", "meta": "#f00", "slug": "red", "language": "en"},
            {"id": second.pk, "value": "Dark blue", "meta": "#00a", "slug": "dark-blue", "language": "en"},
        ],
        "created_at": at,
        "updated_at": at,
    }
    assert answer.json() == record
    assert Client().get("/api/attributes").json() == [record]
    assert Client().get(f"/api/attributes/{attribute.pk}").json() == record
    assert Client().get("/api/attributes/color").json() == record


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": None}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"shop_id": None}, "shop_id"),
        ({"shop_id": "٣"}, "shop_id"),
        ({"shop_id": True}, "shop_id"),
        ({"shop_id": 0}, "shop_id"),
        ({"shop_id": 2**63}, "shop_id"),
        ({"language": "english!"}, "language"),
        ({"language": "x"}, "language"),
        ({"values": "red"}, "values"),
        ({"values": None}, "values"),
        ({"values": ["red"]}, "values.0"),
        ({"values": [RED, {"meta": "x"}]}, "values.1.value"),
        ({"values": [{"value": "x" * 256}]}, "values.0.value"),
        ({"values": [{"value": "x", "meta": "x" * 1001}]}, "values.0.meta"),
        ({"values": [{"value": "x", "id": "a"}]}, "values.0.id"),
        ({"values": [{"value": "x", "id": -1}]}, "values.0.id"),
        ({"values": [{"value": "x", "id": 5}]}, "values.0.id"),
        ({"values": [RED] * 4001}, "values"),
    ],
)
def test_invalid_fields_are_named_and_nothing_is_stored(mine: Client, shop: Shop, changes: dict[str, Any], field: str):
    answer = send(mine, "post", "attributes", {"name": "Color", "shop_id": shop.pk} | changes)

    assert answer.status_code == 422, answer.content
    assert [name.removesuffix(".non_field_errors") for name in answer.json()["errors"]] == [field]
    assert not Attribute.objects.exists()


def test_values_without_an_id_or_with_none_are_new(mine: Client, shop: Shop):
    sent = {
        "name": "Color",
        "shop_id": shop.pk,
        "values": [{"id": None, "value": "Red", "meta": None}, {"value": "Blue"}],
    }

    assert send(mine, "post", "attributes", sent).status_code == 200
    assert told(Attribute.objects.get()) == [("Red", ""), ("Blue", "")]


def test_slugs_are_unused_and_never_look_like_ids(shop: Shop, foreign_shop: Shop):
    slugs = [make_attribute(shop, name).slug for name in ("Shoe Size", "shoe size!", "2024", "2024", "Цвет", "---")]

    assert slugs == [
        "shoe-size", "shoe-size-2", "2024-2", "2024-3", "цвет", "hyphen-minus-hyphen-minus-hyphen-minus"
    ]  # fmt: skip
    assert make_attribute(foreign_shop, "Shoe size").slug == "shoe-size-3"


def test_a_translation_has_the_same_slug_in_another_language(mine: Client, shop: Shop, foreign_shop: Shop):
    english = make_attribute(shop)
    sent = {"name": "Farbe", "slug": "color", "language": "de", "shop_id": shop.pk, "values": [{"value": "Rot"}]}

    german = send(mine, "post", "attributes", sent).json()

    assert (german["slug"], german["language"], german["translated_languages"]) == ("color", "de", ["de", "en"])
    assert german["values"][0]["language"] == "de"
    assert Client().get("/api/attributes/color").json()["id"] == english.pk
    assert Client().get("/api/attributes/color?language=de").json()["id"] == german["id"]
    assert Client().get("/api/attributes/color?language=fr").status_code == 404
    assert Client().get(f"/api/attributes/{german['id']}").json()["name"] == "Farbe"
    assert [row["id"] for row in Client().get("/api/attributes").json()] == [english.pk]
    assert [row["id"] for row in Client().get("/api/attributes?language=de").json()] == [german["id"]]

    again = send(mine, "post", "attributes", sent).json()
    assert again["slug"] == "color-2"
    theirs = make_attribute(foreign_shop, "Couleur", slug="color", language="fr")
    assert theirs.slug == "color-3"
    assert Client().get(f"/api/attributes/{english.pk}").json()["translated_languages"] == ["de", "en"]


def test_attributes_without_an_english_twin_are_listed_and_found(shop: Shop):
    color = make_attribute(shop)
    make_attribute(shop, "Farbe", slug="color", language="de")
    size = make_attribute(shop, "Größe", slug="groesse", language="de")
    taille = make_attribute(shop, "Taille", slug="groesse", language="fr")

    def listed(**query: str) -> list[int]:
        return [row["id"] for row in Client().get("/api/attributes", query).json()]

    assert listed() == [color.pk, size.pk, taille.pk]
    assert listed(language="en") == [color.pk]
    assert listed(language="fr") == [taille.pk]
    assert listed(search=f"shop_id:{shop.pk}") == [color.pk, size.pk, taille.pk]
    assert Client().get("/api/attributes/groesse").json()["id"] == size.pk
    assert Client().get("/api/attributes/groesse?language=fr").json()["id"] == taille.pk
    assert Client().get("/api/attributes/groesse?language=en").status_code == 404


def test_a_change_keeps_the_fields_it_does_not_have(mine: Client, shop: Shop):
    attribute = make_attribute(shop, values=[RED, BLUE])

    record = send(mine, "put", f"attributes/{attribute.pk}", {"name": "Colour"}).json()

    assert (record["name"], record["slug"], record["shop_id"]) == ("Colour", "color", shop.pk)
    assert [value["value"] for value in record["values"]] == ["Red", "Dark blue"]
    assert record["updated_at"] > record["created_at"] == "2026-01-10T10:30:00.000000Z"


def test_sent_values_replace_the_whole_list(mine: Client, shop: Shop):
    attribute = make_attribute(shop, values=[RED, BLUE, {"value": "Green", "meta": "#0f0"}])
    red, blue, green = attribute.values.all()
    wanted = [
        {"id": green.pk, "value": "Lime"},
        {"id": red.pk, "value": "Red", "meta": ""},
        {"id": None, "value": "Pink"},
    ]

    record = send(mine, "put", f"attributes/{attribute.pk}", {"values": wanted}).json()

    pink = AttributeValue.objects.get(value="Pink")
    assert [(value["id"], value["value"], value["meta"], value["slug"]) for value in record["values"]] == [
        (red.pk, "Red", "", "red"),
        (green.pk, "Lime", "#0f0", "lime"),
        (pk := pink.pk, "Pink", "", "pink"),
    ]
    assert pk > green.pk
    assert not AttributeValue.objects.filter(pk=blue.pk).exists()
    assert send(mine, "put", f"attributes/{attribute.pk}", {"values": []}).json()["values"] == []


def test_c3_a_value_of_another_attribute_is_refused(mine: Client, shop: Shop, foreign_shop: Shop):
    attribute = make_attribute(shop, values=[RED])
    own = attribute.values.get().pk
    for other in (make_attribute(shop, "Size", values=[BLUE]), make_attribute(foreign_shop, values=[BLUE])):
        theirs = other.values.get()
        for wanted in ([{"id": theirs.pk, "value": "Stolen"}], [{"id": own, "value": "A"}, {"id": own, "value": "B"}]):
            answer = send(mine, "put", f"attributes/{attribute.pk}", {"name": "New", "values": wanted})

            assert answer.status_code == 422
            assert list(answer.json()["errors"]) == [f"values.{len(wanted) - 1}.id"]
        assert told(other) == [("Dark blue", "#00a")]
    attribute.refresh_from_db()
    assert (attribute.name, told(attribute)) == ("Color", [("Red", "#f00")])


def test_c3_no_attribute_moves_into_or_out_of_another_owners_shop(
    mine: Client, owner: User, shop: Shop, foreign_shop: Shop
):
    own, theirs = make_attribute(shop), make_attribute(foreign_shop)
    for path, method, sent in (
        ("attributes", "post", {"name": "New", "shop_id": foreign_shop.pk}),
        ("attributes", "post", {"name": "New", "shop_id": foreign_shop.pk + 1000}),
        (f"attributes/{own.pk}", "put", {"shop_id": foreign_shop.pk}),
        (f"attributes/{own.pk}", "put", {"shop_id": foreign_shop.pk + 1000}),
        (f"attributes/{theirs.pk}", "put", {"name": "Taken"}),
        (f"attributes/{theirs.pk}", "put", {"shop_id": shop.pk}),
        (f"attributes/{theirs.slug}", "delete", {}),
    ):
        assert send(mine, method, path, sent).status_code == 403, (method, path)
    assert sorted(Attribute.objects.values_list("name", "shop_id")) == [("Color", shop.pk), ("Color", foreign_shop.pk)]

    second = Shop.objects.create(owner=owner, name="Second", slug="second")
    assert send(mine, "put", f"attributes/{own.pk}", {"shop_id": second.pk}).json()["shop_id"] == second.pk


def test_a_super_admin_writes_in_every_shop(client_of: ApiClient, admin: User, shop: Shop, foreign_shop: Shop):
    client = client_of(admin)
    made = send(client, "post", "attributes", {"name": "Size", "shop_id": shop.pk}).json()

    assert send(client, "put", f"attributes/{made['id']}", {"shop_id": foreign_shop.pk}).status_code == 200
    unknown = send(client, "post", "attributes", {"name": "Size", "shop_id": foreign_shop.pk + 1000})
    assert unknown.json()["errors"] == {"shop_id": ["There is no shop with this id."]}
    assert client.delete(f"/api/attributes/{made['id']}").status_code == 200


@pytest.mark.parametrize("role", ["staff", "customer"])
def test_users_without_a_shop_write_nothing(
    request: pytest.FixtureRequest, client_of: ApiClient, shop: Shop, role: str
):
    attribute = make_attribute(shop)
    client = client_of(request.getfixturevalue(role))

    for method, path in (("post", "attributes"), ("put", "attributes/1"), ("delete", f"attributes/{attribute.pk}")):
        assert send(client, method, path, {"name": "New", "shop_id": shop.pk}).status_code == 403
    assert client.post("/api/import-attributes").status_code == 403
    assert client.get(f"/api/attributes/{attribute.pk}").status_code == 200


def test_c5_anonymous_users_read_and_write_nothing(shop: Shop):
    attribute = make_attribute(shop)

    for method, path in (("post", "attributes"), ("put", f"attributes/{attribute.pk}"), ("delete", "attributes/color")):
        assert send(Client(), method, path, {"name": "New", "shop_id": shop.pk}).status_code == 401
    assert Client().post("/api/import-attributes").status_code == 401
    assert Client().get("/api/attributes").status_code == 200
    stale = Client(headers={"Authorization": "Bearer stale"})
    assert stale.get("/api/attributes").json() == Client().get("/api/attributes").json()


def test_attributes_of_an_inactive_shop_are_visible_to_its_members_only(mine: Client, shop: Shop):
    attribute = make_attribute(shop)
    Shop.objects.update(is_active=False)

    assert Client().get("/api/attributes").json() == []
    assert Client().get(f"/api/attributes/{attribute.pk}").status_code == 404
    assert Client().get(f"/api/export-attributes/{shop.pk}").status_code == 404
    assert [row["id"] for row in mine.get("/api/attributes").json()] == [attribute.pk]


def test_c2_read_only_fields_are_ignored(mine: Client, shop: Shop, foreign_shop: Shop):
    extra: dict[str, Any] = {f"field_{number}": number for number in range(1000)}
    extra |= {"id": 99, "created_at": "2001-01-01", "updated_at": "2001-01-01", "shop": foreign_shop.pk, "pk": 99}

    made = send(mine, "post", "attributes", {"name": "Color", "shop_id": shop.pk} | extra).json()
    kept = Attribute.objects.values().get()
    send(mine, "put", f"attributes/{made['id']}", extra | {"slug": "stolen", "language": "de"})

    assert (kept["shop_id"], kept["created_at"].year >= 2026) == (shop.pk, True)
    assert Attribute.objects.values("id", "slug", "language", "shop_id", "created_at").get() == {
        name: kept[name] for name in ("id", "slug", "language", "shop_id", "created_at")
    }


def test_a_deletion_returns_the_deleted_record(mine: Client, shop: Shop):
    attribute = make_attribute(shop, values=[RED])
    record = mine.get(f"/api/attributes/{attribute.pk}").json()

    answer = mine.delete(f"/api/attributes/{attribute.pk}")

    assert (answer.status_code, answer.json()) == (200, record)
    assert mine.delete(f"/api/attributes/{attribute.pk}").status_code == 404
    assert not AttributeValue.objects.exists()


def test_the_list_accepts_the_queries_of_existing_clients(shop: Shop, foreign_shop: Shop):
    for place, name in ((shop, "Color"), (shop, "Size"), (foreign_shop, "Colour")):
        make_attribute(place, name)

    def names(**query: Any) -> list[str]:
        return [row["name"] for row in Client().get("/api/attributes", query).json()]

    assert names() == ["Color", "Size", "Colour"]
    assert names(shop_id=shop.pk) == ["Color", "Size"]
    assert names(shop_id=shop.pk + 1000) == []
    assert names(search=f"shop_id:{shop.pk}", orderBy="name", sortedBy="desc") == ["Size", "Color"]
    assert names(search=f"name:colo;shop_id:{shop.pk}", searchJoin="and") == ["Color"]
    assert names(limit=1, page=2) == ["Size"]
    row = Client().get("/api/attributes", {"with": "shop;values"}).json()[0]
    assert row["shop"] == {"id": shop.pk, "name": "Corner", "slug": "corner", "logo": None}
    assert "shop" not in Client().get("/api/attributes/color").json()
    assert Client().get("/api/attributes/color?with=shop").json()["shop"]["slug"] == "corner"


@pytest.mark.parametrize("shop_id", ["x", "1.5", "٣", str(2**63), "1\x00"])
def test_c7_a_filter_that_is_not_a_number_is_refused(db: None, shop_id: str):
    assert Client().get("/api/attributes", {"shop_id": shop_id}).status_code == 422


@pytest.mark.parametrize("key", ["0", "-1", str(2**63), str(10**30), "٣", "no-such", "%00", "a%00", "A B", "x" * 5000])
def test_i7_an_unknown_attribute_is_404(mine: Client, key: str):
    for method in ("get", "put", "delete"):
        assert send(mine, method, f"attributes/{key}", {}).status_code == 404
    assert mine.get(f"/api/export-attributes/{key}").status_code == 404


@pytest.mark.parametrize("language", ["d\x00e", "e" * 17])
def test_i2_an_invalid_language_is_refused(shop: Shop, language: str):
    make_attribute(shop)

    assert Client().get("/api/attributes", {"language": language}).status_code == 422
    assert Client().get("/api/attributes/color", {"language": language}).status_code == 422


@pytest.mark.parametrize(
    "name",
    ['"a\\u0000b"', '"\\ud800"', "NaN", "1e999", "9" * 5000, '{"a": 1, "a": 2}', "[" * 100_000, '"x", "value": "y"'],
)
def test_i2_text_that_no_database_can_store_is_refused(mine: Client, shop: Shop, name: str):
    attribute = make_attribute(shop)
    sent = f'{{"shop_id": {shop.pk}, "values": [{{"value": {name}}}], "name": "New"}}'

    for method, path in (("post", "attributes"), ("put", f"attributes/{attribute.pk}")):
        assert send(mine, method, path, sent).status_code == 422
    assert Attribute.objects.get().name == "Color"


def test_c7_the_list_costs_three_more_queries_of_sizes_for_a_thousand_than_for_ten(shop: Shop):
    def queries_for(count: int) -> int:
        Attribute.objects.all().delete()
        rows = Attribute.objects.bulk_create(
            Attribute(shop=shop, name=f"{number}", slug=f"a-{number}", created_at=NOW, updated_at=NOW)
            for number in range(count)
        )
        AttributeValue.objects.bulk_create(AttributeValue(attribute=row, value="x", slug="x") for row in rows)
        with CaptureQueriesContext(connection) as queries:
            assert len(Client().get("/api/attributes?with=shop").json()) == count
        return len(queries)

    for_ten = queries_for(10)
    assert for_ten <= 6
    assert queries_for(1000) <= for_ten + 3


def test_four_thousand_values_are_written_in_a_bounded_number_of_queries(mine: Client, shop: Shop):
    sent = [{"value": f"Value {number}", "meta": f"{number}"} for number in range(4000)]
    with CaptureQueriesContext(connection) as making:
        record = send(mine, "post", "attributes", {"name": "Size", "shop_id": shop.pk, "values": sent}).json()
    assert len(record["values"]) == 4000
    assert len(making) <= 60

    changed = [value | {"meta": "new"} for value in record["values"][:2000]] + sent[:2000]
    with CaptureQueriesContext(connection) as changing:
        after = send(mine, "put", f"attributes/{record['id']}", {"values": changed}).json()
    assert [value["id"] for value in after["values"][:2000]] == [value["id"] for value in record["values"][:2000]]
    assert {value["meta"] for value in after["values"][:2000]} == {"new"}
    assert len(after["values"]) == 4000
    assert len(changing) <= 60


def test_a_shop_has_a_maximum_of_attributes_and_values(mine: Client, shop: Shop, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(values, "MAX_VALUES_PER_SHOP", 3)
    monkeypatch.setattr(services, "MAX_ATTRIBUTES_PER_SHOP", 2)
    first = make_attribute(shop, values=[RED, BLUE])

    answer = send(mine, "post", "attributes", {"name": "B", "shop_id": shop.pk, "values": [RED, BLUE]})
    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["values"])
    assert Attribute.objects.get() == first
    assert send(mine, "post", "attributes", {"name": "B", "shop_id": shop.pk, "values": [RED]}).status_code == 200
    answer = send(mine, "post", "attributes", {"name": "C", "shop_id": shop.pk})
    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["shop_id"])


def test_the_owner_must_still_be_an_owner(shop: Shop, owner: User):
    client = Client(headers=bearer(owner))
    User.objects.filter(pk=owner.pk).update(role=Role.CUSTOMER)

    assert send(client, "post", "attributes", {"name": "Color", "shop_id": shop.pk}).status_code == 403
