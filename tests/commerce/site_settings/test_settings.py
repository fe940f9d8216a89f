"""Settings of the shop: read by everybody, changed by super admins, in each language."""

import json
from typing import Any

import pytest
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile

from commerce.site_settings.models import Site, SiteOptions
from shared.accounts.models import User
from shared.audit.models import AuditEntry
from tests.commerce.attachments.samples import image_file, pdf_file
from tests.commerce.catalog.test_junk import junk_values
from tests.commerce.conftest import ApiClient

PATH = "/api/settings"
OPTIONS = (
    "siteTitle", "siteSubtitle", "currency", "currencyOptions", "logo", "seo", "contactDetails", "isUnderMaintenance",
    "maintenance", "languages",
)  # fmt: skip

pytestmark = pytest.mark.django_db


def put(client_of: ApiClient, user: User, options: Any, language: str = "en", method: str = "put") -> Any:
    body = {"language": language, "options": options}
    return getattr(client_of(user), method)(PATH, body, content_type="application/json")


def test_settings_have_defaults_that_clients_can_read(client_of: ApiClient):
    record = client_of(None).get(PATH).json()

    assert record == {
        "id": 1,
        "language": "en",
        "translated_languages": [],
        "options": {
            "siteTitle": "",
            "siteSubtitle": "",
            "currency": settings.CURRENCY,
            "currencyOptions": {"formation": "en-US", "fractions": 2},
            "logo": None,
            "seo": dict.fromkeys(record["options"]["seo"]),
            "contactDetails": {"contact": "", "emailAddress": "", "website": "", "location": None, "socials": []},
            "isUnderMaintenance": False,
            "maintenance": {"title": "", "description": "", "start": None, "until": None},
            "languages": ["en"],
        },
        "created_at": None,
        "updated_at": None,
    }


@pytest.mark.parametrize("method", ["put", "post"])
def test_a_change_keeps_other_options_and_other_languages(client_of: ApiClient, admin: User, method: str):
    put(client_of, admin, {"siteTitle": "Corner", "useOtp": True, "seo": {"metaTitle": "Shop"}}, method=method)
    german = put(client_of, admin, {"siteTitle": "Ecke", "languages": ["de", "en"]}, "de", method)

    assert german.status_code == 200
    assert german.json() == client_of(None).get(PATH, {"language": "de"}).json()
    english = put(client_of, admin, {"siteSubtitle": "Lamps"}, method=method).json()["options"]
    assert (english["siteTitle"], english["siteSubtitle"], english["useOtp"]) == ("Corner", "Lamps", True)
    assert (english["seo"]["metaTitle"], english["languages"]) == ("Shop", ["de", "en"])
    record = german.json()
    assert (record["language"], record["options"]["siteTitle"], record["options"]["siteSubtitle"]) == ("de", "Ecke", "")
    assert record["options"]["currencyOptions"] == {"formation": "de", "fractions": 2}
    assert record["translated_languages"] == ["de", "en"]
    assert client_of(None).get(PATH, {"language": "fr"}).json()["options"]["siteTitle"] == "Corner"


def test_the_logo_is_an_uploaded_image(client_of: ApiClient, admin: User):
    mine, pdf = (
        client_of(admin).post("/api/attachments", {"attachment[]": SimpleUploadedFile(name, content)}).json()[0]
        for name, content in (("logo.png", image_file()), ("manual.pdf", pdf_file()))
    )

    logo = {name: mine[name] for name in ("id", "original", "thumbnail", "alt", "focal_point")}
    assert put(client_of, admin, {"logo": mine}).json()["options"]["logo"] == logo
    for image in (pdf, {"id": 2**62}):
        refused = put(client_of, admin, {"logo": image, "siteTitle": "Lost"})
        assert (refused.status_code, list(refused.json()["errors"])) == (422, ["options.logo"])
    record = client_of(None).get(PATH).json()["options"]
    assert (record["logo"]["id"], record["siteTitle"]) == (mine["id"], "")
    assert put(client_of, admin, {"logo": None}).json()["options"]["logo"] is None


def test_only_super_admins_change_settings(client_of: ApiClient, owner: User, staff: User, customer: User):
    assert [put(client_of, user, {"siteTitle": "Mine"}).status_code for user in (owner, staff, customer)] == [403] * 3
    assert not SiteOptions.objects.exists()
    assert not Site.objects.exists()


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"currency": "XTS"}, "options.currency"),
        ({"currencyOptions": {"fractions": 9}}, "options.currencyOptions.fractions"),
        ({"currencyOptions": {"formation": "no locale"}}, "options.currencyOptions.formation"),
        ({"isUnderMaintenance": "soon"}, "options.isUnderMaintenance"),
        ({"languages": []}, "options.languages"),
        ({"languages": ["english"]}, "options.languages.0"),
        ({"contactDetails": {"socials": [{}] * 51}}, "options.contactDetails.socials"),
        (
            {"maintenance": {"start": "2026-02-01T00:00:00Z", "until": "2026-01-01T00:00:00Z"}},
            "options.maintenance.until",
        ),
        ({"theme": "x" * 65_536}, "options"),
        ({str(number): 1 for number in range(201)}, "options"),
        ({"siteTitle": ["Corner"]}, "options.siteTitle"),
        ("Corner", "options"),
    ],
)
def test_an_invalid_option_is_422_and_changes_nothing(client_of: ApiClient, admin: User, options: Any, field: str):
    refused = put(client_of, admin, options)

    assert refused.status_code == 422
    assert any(name.startswith(field) for name in refused.json()["errors"]), refused.json()
    assert not SiteOptions.objects.exists()
    assert not Site.objects.exists()


def test_hostile_options_are_client_errors(client_of: ApiClient, admin: User):
    client, answers = client_of(admin), set()
    for junk in junk_values():
        for name in (*OPTIONS, "anything"):
            for sent in ({"options": {name: junk}}, {"options": {"seo": {name: junk}}}, {name: junk}):
                answers.add(client.put(PATH, sent, content_type="application/json").status_code)
        answers.add(client.put(PATH, {"language": junk, "options": {}}, content_type="application/json").status_code)

    assert answers <= {200, 422}
    assert client_of(None).get(PATH).status_code in (200, 503)


def test_a_change_is_in_the_audit_log_without_its_values(client_of: ApiClient, admin: User):
    put(client_of, admin, {"siteTitle": "Corner", "isUnderMaintenance": False})

    entry = AuditEntry.objects.get(action="settings.change")
    assert entry.actor_id == admin.pk
    assert entry.details == {
        "language": "en",
        "options": ["isUnderMaintenance", "siteTitle"],
        "is_under_maintenance": False,
    }
    assert "Corner" not in json.dumps(entry.details)


def test_the_settings_have_the_id_1(client_of: ApiClient, admin: User, owner: User):
    body = {"options": {"siteTitle": "Corner"}}

    record = client_of(admin).put(f"{PATH}/1", body, content_type="application/json").json()

    assert (record["id"], record["options"]["siteTitle"]) == (1, "Corner")
    assert client_of(None).get(f"{PATH}/1").json() == record == client_of(None).get(PATH).json()
    assert client_of(owner).put(f"{PATH}/1", body, content_type="application/json").status_code == 403
    assert client_of(admin).put(f"{PATH}/2", body, content_type="application/json").status_code == 404
