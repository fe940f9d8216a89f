"""A running server with a cross-encoder and a classifier beside the usual fake models."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.inference.engine.processes import running_host
from tests.inference.running_server import EMBEDDER_CONFIG, TALKER_CONFIG, RunningServer, add_model, running_server
from tests.services import ignore_on_postgresql as pytest_ignore_collect  # noqa: F401  not about the database

CLASSIFIER_CONFIG = {"architectures": ["BertForSequenceClassification"], "max_position_embeddings": 512}
MODELS: dict[str, dict[str, object]] = {
    "talker": dict(TALKER_CONFIG),
    "embedder": dict(EMBEDDER_CONFIG),
    "reranker": CLASSIFIER_CONFIG | {"id2label": {"0": "relevant"}},
    "labeler": CLASSIFIER_CONFIG | {"id2label": {"0": "hate", "1": "threat", "2": "safe"}},
}


@pytest.fixture(scope="package")
def scoring() -> Iterator[RunningServer]:
    """A server whose four models are loaded. A fake score is the share of a text's letters that the query has."""
    with tempfile.TemporaryDirectory(prefix="stoa") as folder, running_host() as host:
        home = Path(folder)
        for name, config in MODELS.items():
            add_model(home / "models", name, config)
        with running_server(home, host.run_dir, home / "models", load=list(MODELS)) as stoa:
            yield stoa
