"""Selection of the downloaded files of a repository."""

import pytest

from inference.downloads.selection import RepositoryFile, choose_files
from shared.api.errors import ApiError

DESCRIBED = ["config.json", "tokenizer.json"]
UNSAFE = ["pytorch_model.bin", "modeling_evil.py", "model.pkl", "tf_model.h5", "onnx/model.onnx", "../up.safetensors"]
SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
GGUFS = ["tiny-Q4_K_M.gguf", "tiny.Q8_0.gguf", "mmproj-tiny-f16.gguf"]


def chosen(paths: list[str], include: tuple[str, ...] = (), quantize: str | None = None) -> list[str]:
    files = [RepositoryFile(path=path, size=1, git_blob="0", sha256=None) for path in paths]
    return [file.path for file in choose_files(files, include=include, quantize=quantize)]


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ([*DESCRIBED, "model.safetensors", "README.md", *UNSAFE], [*DESCRIBED, "model.safetensors"]),
        (
            [*DESCRIBED, "model.safetensors.index.json", *SHARDS, "consolidated.safetensors"],
            ["config.json", "model.safetensors.index.json", "tokenizer.json", *SHARDS],
        ),
        (["config.json", "1_Pooling/config.json", "modules.json", "other.safetensors"],
         ["1_Pooling/config.json", "config.json", "modules.json", "other.safetensors"]),
        (["tiny-Q4_K_M.gguf", "config.json", *UNSAFE], ["tiny-Q4_K_M.gguf"]),
    ],
)  # fmt: skip
def test_weights_in_a_safe_format_are_chosen_with_their_configuration(paths: list[str], expected: list[str]):
    assert chosen(paths) == expected


def test_one_of_several_gguf_files_is_chosen_by_quantization_or_name():
    assert chosen(GGUFS, quantize="q8_0") == ["tiny.Q8_0.gguf"]
    assert chosen(GGUFS, include=("*K_M.gguf",)) == ["tiny-Q4_K_M.gguf"]
    assert chosen([*DESCRIBED, "model.safetensors", *GGUFS], quantize="Q4_K_M") == ["tiny-Q4_K_M.gguf"]


@pytest.mark.parametrize(
    ("paths", "include", "quantize", "status", "message"),
    [
        ([*DESCRIBED, *UNSAFE], (), None, 404, "other formats"),
        (GGUFS, (), None, 400, "Q4_K_M, Q8_0"),
        (GGUFS, (), "Q2_K", 404, "Q4_K_M, Q8_0"),
        ([*DESCRIBED, "model.safetensors"], (), "int8", 404, "--quantization int8"),
        ([*DESCRIBED, "model.safetensors", *UNSAFE], ("*.bin",), None, 400, "pytorch_model.bin"),
        ([*DESCRIBED, "model.safetensors", *UNSAFE], ("../*",), None, 400, "../up.safetensors"),
        ([*DESCRIBED, "model.safetensors"], ("*.nothing",), None, 400, "no file matches"),
        (["big-Q4_K_M-00001-of-00002.gguf", "big-Q4_K_M-00002-of-00002.gguf"], (), None, 400, "split"),
    ],
)
def test_an_unsupported_choice_is_refused_with_the_available_files(
    paths: list[str], include: tuple[str, ...], quantize: str | None, status: int, message: str
):
    with pytest.raises(ApiError) as refused:
        chosen(paths, include, quantize)

    assert refused.value.problem.status == status
    assert message in refused.value.problem.message
