"""Cohere's client and LangChain's reranker against /v2/rerank, on the built-in encoder."""

from collections.abc import Iterator

import cohere
import pytest
from cohere.errors import BadRequestError, NotFoundError, UnauthorizedError
from langchain_cohere import CohereRerank
from langchain_core.documents import Document

from tests.running_stoa import RunningStoa

MODEL = "stoa-encoder"
QUERY = "a warm lamp of brass"
DOCUMENTS = ["the quiet kettle boils", "a warm lamp of brass and oak", "a chair for the garden"]


@pytest.fixture
def client(stoa: RunningStoa) -> Iterator[cohere.ClientV2]:
    with cohere.ClientV2(api_key=stoa.api_key, base_url=stoa.inference_url) as client:
        yield client


def test_the_client_sorts_documents_by_relevance(client: cohere.ClientV2):
    answer = client.rerank(model=MODEL, query=QUERY, documents=DOCUMENTS, max_tokens_per_doc=100)

    assert answer.results[0].index == 1
    scores = [one.relevance_score for one in answer.results]
    assert scores == sorted(scores, reverse=True)
    assert sorted(one.index for one in answer.results) == [0, 1, 2]
    assert answer.id
    assert answer.meta is not None
    assert answer.meta.tokens is not None
    assert answer.meta.tokens.input_tokens
    best = client.rerank(model=MODEL, query=QUERY, documents=DOCUMENTS, top_n=1)
    assert [one.index for one in best.results] == [1]


def test_the_clients_first_version_gets_documents_back(stoa: RunningStoa):
    with cohere.Client(api_key=stoa.api_key, base_url=stoa.inference_url) as client:
        answer = client.rerank(model=MODEL, query=QUERY, documents=DOCUMENTS, top_n=1, return_documents=True)

    assert answer.results[0].document is not None
    assert answer.results[0].document.text == DOCUMENTS[1]


def test_errors_are_those_of_the_client(stoa: RunningStoa, client: cohere.ClientV2):
    with pytest.raises(NotFoundError) as unknown:
        client.rerank(model="nobody", query=QUERY, documents=DOCUMENTS)
    assert "nobody" in unknown.value.body["message"]
    with pytest.raises(BadRequestError) as refused:
        client.rerank(model="stoa-describer", query=QUERY, documents=DOCUMENTS)
    _, _, offered = refused.value.body["message"].partition("Loaded models that could: ")
    assert "stoa-encoder" in offered
    with (
        cohere.ClientV2(api_key="stoa_0123456789_made-up", base_url=stoa.inference_url) as stranger,
        pytest.raises(UnauthorizedError),
    ):
        stranger.rerank(model=MODEL, query=QUERY, documents=DOCUMENTS)


def test_langchains_reranker_keeps_the_best_documents(client: cohere.ClientV2):
    reranker = CohereRerank(client=client, model=MODEL, top_n=2)
    documents = [Document(page_content=text, metadata={"row": row}) for row, text in enumerate(DOCUMENTS)]

    best = reranker.compress_documents(documents, QUERY)

    assert best[0].page_content == DOCUMENTS[1]
    assert len(best) == 2
    assert best[0].metadata["row"] == 1
    assert best[0].metadata["relevance_score"] >= best[1].metadata["relevance_score"]
