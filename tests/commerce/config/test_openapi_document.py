"""The OpenAPI document is generated once, whatever a client asks for."""

import pytest
from django.test import Client
from drf_spectacular.generators import SchemaGenerator

from shared.api.openapi import views

pytestmark = pytest.mark.django_db


def test_n3_a_flood_of_requests_generates_no_document_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    generated = []
    get_schema = SchemaGenerator.get_schema

    def count(*args, **kwargs):
        generated.append(args)
        return get_schema(*args, **kwargs)

    monkeypatch.setattr(SchemaGenerator, "get_schema", count)
    views._document.cache_clear()
    client = Client()
    answers = [client.get(f"/api/openapi.json?lang={lang}&new={lang}") for lang in ("en", "de", "es")]
    former = client.get("/api/schema")
    assert len(generated) == 1
    assert {answer.content for answer in [*answers, former]} == {answers[0].content}
    assert answers[0]["Content-Type"] == "application/vnd.oai.openapi+json"
    assert former["Deprecation"]
    assert "Deprecation" not in answers[0]
