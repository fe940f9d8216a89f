"""Tiny models on disk, made once."""

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest

from inference.engine.models.kernel_build import FOLDER_VARIABLE, build_kernels, compiled_kernels
from tests.inference.engine import tiny_models
from tests.running_stoa import COMPILED_DIR
from tests.services import ignore_on_postgresql as pytest_ignore_collect  # noqa: F401  not about the database


@pytest.fixture(scope="session")
def causal_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A causal model of each family, over letters."""
    root = tmp_path_factory.mktemp("causal")
    tokenizer = tiny_models.letter_tokenizer()
    return {family: tiny_models.save_causal(root / family, family, tokenizer) for family in tiny_models.CAUSAL}


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.save_encoder(tmp_path_factory.mktemp("encoder") / "tiny-encoder")


@pytest.fixture(scope="module")
def kernels() -> Iterator[ctypes.CDLL]:
    """The compiled library, also for what is loaded meanwhile. Built when the source or the machine is new."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FOLDER_VARIABLE, str(COMPILED_DIR))
        if not build_kernels():
            pytest.skip("no C++ compiler")
        library = compiled_kernels()
        assert library is not None
        yield library
