"""Tiny models on disk, made once."""

from pathlib import Path

import pytest

from tests.inference.engine import tiny_models


@pytest.fixture(scope="session")
def causal_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A causal model of each family, over letters."""
    root = tmp_path_factory.mktemp("causal")
    tokenizer = tiny_models.letter_tokenizer()
    return {family: tiny_models.save_causal(root / family, family, tokenizer) for family in tiny_models.CAUSAL}


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.save_encoder(tmp_path_factory.mktemp("encoder") / "tiny-encoder")
