"""The model server of the tests of search, and a shop that knows it."""

from collections.abc import Iterator

import pytest
from django.test import Client

from commerce.catalog.search.vectors import matrix, semantic
from commerce.model_server import embeddings
from tests.commerce.conftest import ApiClient
from tests.commerce.search.embedding_server import EmbeddingServer


@pytest.fixture
def nobody(client_of: ApiClient) -> Client:
    return client_of(None)


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    """Forget what the process remembers of other tests' databases and servers."""
    yield
    matrix.forget_matrices()
    semantic.forget_queries()
    embeddings.close_clients()


@pytest.fixture
def server(settings) -> Iterator[EmbeddingServer]:  # type: ignore[no-untyped-def]
    server = EmbeddingServer()
    server.start()
    settings.DESCRIPTIONS_BASE_URL, settings.DESCRIPTIONS_API_KEY = server.url, "sk-shop"
    settings.SEARCH_MODEL = "concepts"
    yield server
    server.stop()
