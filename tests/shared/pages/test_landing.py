"""GET / of each project."""

import re

import pytest
from django.conf import settings
from django.test import Client

pytestmark = [pytest.mark.each_project, pytest.mark.django_db]
BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


def test_a_client_gets_the_links_as_json():
    response = Client().get("/")

    assert response.status_code == 200
    body = response.json()
    assert body["version"] == settings.VERSION
    assert body["links"]["admin"] == "http://testserver/admin/"


def test_a_browser_gets_a_page_whose_links_lead_somewhere():
    response = Client().get("/", headers=BROWSER)

    assert response.headers["Content-Type"].startswith("text/html")
    assert "Accept" in response.headers["Vary"]
    links = re.findall(r'<a href="([^"]+)"', response.content.decode())
    assert len(links) >= 5
    for link in links:
        assert Client().get(link, headers=BROWSER).status_code in (200, 302, 401), link
