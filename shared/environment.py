"""Typed reader of the environment variables that `shared.variables` declares, and parsers of the URLs among them."""

import builtins
import os
import re
import sys
from collections.abc import Callable
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from shared.variables import VARIABLES, Variable, VariableType

TRUE_STRINGS = ("y", "yes", "on", "true", "ok", "1")
FALSE_STRINGS = ("n", "no", "off", "false", "0", "")
POSTGRESQL_SCHEMES = ("postgres", "postgresql", "psql", "pgsql")
EMAIL_BACKENDS = {
    "smtp": "django.core.mail.backends.smtp.EmailBackend",
    "smtps": "django.core.mail.backends.smtp.EmailBackend",
    "smtp+tls": "django.core.mail.backends.smtp.EmailBackend",
    "smtp+ssl": "django.core.mail.backends.smtp.EmailBackend",
    "consolemail": "django.core.mail.backends.console.EmailBackend",
    "filemail": "django.core.mail.backends.filebased.EmailBackend",
    "memorymail": "django.core.mail.backends.locmem.EmailBackend",
    "dummymail": "django.core.mail.backends.dummy.EmailBackend",
}

_DECLARED = {variable.name: variable for variable in VARIABLES}
_FORMER_NAMES = {variable.former_name: variable.name for variable in VARIABLES if variable.former_name}

# The names of both projects: one machine often has one environment file for both.
KNOWN_STOA_NAMES = frozenset(name for name in _DECLARED if name.startswith("STOA_"))


class Environment:
    """Reader of the declared variables, each as its declared type.

    A wrong value raises ImproperlyConfigured. The message does not quote the value, which may be a secret.
    """

    def str(self, name: builtins.str) -> builtins.str:
        return builtins.str(self._read_as(name, VariableType.STRING, VariableType.SECRET))

    def int(self, name: builtins.str) -> builtins.int:
        return builtins.int(self._read_as(name, VariableType.INTEGER))

    def float(self, name: builtins.str) -> builtins.float:
        return builtins.float(self._read_as(name, VariableType.NUMBER))

    def bool(self, name: builtins.str) -> builtins.bool:
        return builtins.bool(self._read_as(name, VariableType.BOOLEAN))

    def list(self, name: builtins.str) -> builtins.list[builtins.str]:
        return builtins.list(self._read_as(name, VariableType.LIST, VariableType.SECRET_LIST))

    def bytes(self, name: builtins.str) -> builtins.int:
        """Return a number of bytes; 0 if the variable is empty."""
        return builtins.int(self._read_as(name, VariableType.BYTES))

    def read(self, name: builtins.str) -> Any:
        """Return the value of any declared variable."""
        return self._read_as(name, *VariableType)

    def _read_as(self, name: builtins.str, *types: VariableType) -> Any:
        variable = _DECLARED.get(name)
        if variable is None or variable.type not in types:
            raise LookupError(f"Declare {name} in shared/variables.py, with the type as which it is read.")
        text = os.environ.get(name)
        if text is None:
            text = variable.default
        return _PARSERS[variable.type](variable, text) if isinstance(text, builtins.str) else text


def _parse_string(variable: Variable, text: str) -> str:
    """Return the text. An empty text is the default if the variable has a format or choices."""
    if text:
        _check_format(variable, text)
    elif variable.format or variable.choices:
        return str(variable.default)
    return text


def _parse_list(variable: Variable, text: str) -> list[str]:
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    for entry in entries:
        _check_format(variable, entry)
    return entries


def _check_format(variable: Variable, text: str) -> None:
    if variable.format and not re.fullmatch(variable.format.pattern, text):
        raise ImproperlyConfigured(f"{variable.name} is not valid: set it {variable.bounds}.")
    if variable.choices and text not in variable.choices:
        raise ImproperlyConfigured(f"{variable.name} is not valid: set it to {variable.bounds}.")


def _parse_boolean(variable: Variable, text: str) -> bool:
    word = text.strip().lower()
    if word not in (*TRUE_STRINGS, *FALSE_STRINGS):
        raise ImproperlyConfigured(f"{variable.name} is not a boolean: set it to true or false.")
    return word in TRUE_STRINGS


def _parse_integer(variable: Variable, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise ImproperlyConfigured(f"{variable.name} is not an integer: set it to {variable.bounds}.") from None
    _check_bounds(variable, number)
    return number


def _parse_number(variable: Variable, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ImproperlyConfigured(f"{variable.name} is not a number: set it to {variable.bounds}.") from None
    _check_bounds(variable, number)
    return number


def _check_bounds(variable: Variable, number: float) -> None:
    too_large = variable.maximum is not None and number > variable.maximum
    if not isfinite(number) or number < variable.minimum or too_large:
        raise ImproperlyConfigured(f"{variable.name} is out of range: set it to {variable.bounds}.")


def _parse_bytes(variable: Variable, text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?(?:([kMGT])(i?)B)?", text.strip() or "0")
    if match is None:
        raise ImproperlyConfigured(f"{variable.name} is not a size: set it as in 2000000000, 2GB or 2GiB.")
    number, unit, binary = match.groups()
    factor: int = (1024 if binary else 1000) ** ("kMGT".index(unit) + 1 if unit else 0)
    _check_bounds(variable, float(number) * factor)
    return round(float(number) * factor)


_PARSERS: dict[VariableType, Callable[[Variable, str], Any]] = {
    VariableType.STRING: _parse_string,
    VariableType.SECRET: _parse_string,
    VariableType.SECRET_LIST: _parse_list,
    VariableType.INTEGER: _parse_integer,
    VariableType.NUMBER: _parse_number,
    VariableType.BOOLEAN: _parse_boolean,
    VariableType.LIST: _parse_list,
    VariableType.BYTES: _parse_bytes,
}

env = Environment()


def load_env_file() -> None:
    """Add the variables of the file `.env` in $STOA_HOME, or in the working directory, that are not set yet."""
    path = Path(os.environ.get("STOA_HOME") or os.getcwd()) / ".env"
    if not path.is_file():
        return
    values = {}  # the last of several lines with one name counts
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = re.fullmatch(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z_0-9]*)=(.*?)\s*", line)
        if match is None:
            raise ImproperlyConfigured(f"Line {number} of {path} is not valid: write it as NAME=value.")
        values[match[1]] = _unquote(match[2])
    for name, value in values.items():
        os.environ.setdefault(name, value)


def _unquote(text: str) -> str:
    """Return the text without its quotes; in double quotes a backslash escapes the next character."""
    if len(text) < 2 or text[0] != text[-1] or text[0] not in "'\"":
        return text
    return text[1:-1] if text[0] == "'" else re.sub(r"\\([^rnt])", r"\1", text[1:-1])


def refuse_unknown_names() -> None:
    """Raise ImproperlyConfigured if a STOA_ variable is set that is not declared, with the name that was meant."""
    if unknown := _unknown_names():
        raise ImproperlyConfigured(" ".join(map(_describe_unknown, unknown)))


def ignore_unknown_names() -> None:
    """Warn of STOA_ variables that are not declared, and remove them from the environment.

    For commands other than servers: a user's shell may hold such names for other programs.
    """
    for name in _unknown_names():
        print(f"Warning: {_describe_unknown(name)}", file=sys.stderr)
        del os.environ[name]


def _unknown_names() -> list[str]:
    return sorted(name for name in os.environ if name.startswith("STOA_") and name not in KNOWN_STOA_NAMES)


def _describe_unknown(name: str) -> str:
    if renamed := _FORMER_NAMES.get(name):
        return f"{name} has been renamed: set {renamed} instead."
    names = {known.removeprefix("STOA_"): known for known in (*KNOWN_STOA_NAMES, *_FORMER_NAMES)}
    for match in get_close_matches(name.removeprefix("STOA_"), names, n=1):
        return f"{name} is not a known setting: did you mean {_FORMER_NAMES.get(names[match], names[match])}?"
    return f"{name} is not a known setting: docs/operator/settings.md lists the known ones."


def database(url: str, *, name: str = "DATABASE_URL") -> dict[str, Any]:
    """Return the entry of DATABASES for the URL of this variable. Errors do not quote it: it may hold a password."""
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite" and (rest.startswith("/") or rest in ("", ":memory:")):
        path = re.split("[?#]", rest, maxsplit=1)[0]  # the options of SQLite are ours
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": unquote(path.removeprefix("/")) or ":memory:"}
    if scheme in POSTGRESQL_SCHEMES and (parameters := _libpq_parameters(f"postgresql://{_escape_at_signs(rest)}")):
        names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
        config = {key: parameters.pop(name, "") for key, name in names.items()}
        return {"ENGINE": "django.db.backends.postgresql", **config, "OPTIONS": parameters}
    raise ImproperlyConfigured(
        f"{name} is not a database URL: set it as in postgres://user:password@host/stoa or "
        "sqlite:////var/lib/stoa/stoa.sqlite3, with %2F for a / in the password."
    )


def replica_databases(urls: list[str], primary: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the entries of DATABASES for the URLs of read replicas, with the options of the primary's."""
    databases = {}
    for number, url in enumerate(urls, start=1):
        replica = database(url, name="STOA_REPLICA_URLS")
        options = primary["OPTIONS"] | {"connect_timeout": 2, "pool": primary["OPTIONS"]["pool"] | {"timeout": 2}}
        databases[f"replica-{number}"] = primary | replica | {"OPTIONS": options | replica["OPTIONS"]}
    return databases


def _escape_at_signs(rest: str) -> str:
    """Escape each @ of the password: libpq would take what follows the first for the host, and print it in errors."""
    authority, slash, path = rest.partition("/")
    user, at, host = authority.rpartition("@")
    return user.replace("@", "%40") + at + host + slash + path


def _libpq_parameters(url: str) -> dict[str, Any] | None:
    """Return the connection parameters in a PostgreSQL URL, or None if it is not valid."""
    from psycopg import ProgrammingError  # only for PostgreSQL: the import takes a second
    from psycopg.conninfo import conninfo_to_dict

    try:
        parameters = conninfo_to_dict(url)
    except ProgrammingError:
        return None
    ports = str(parameters.get("port", ""))
    return parameters if re.fullmatch(r"[\d,]*", ports) else None


def mail_server(url: str) -> dict[str, Any]:
    """Return Django's EMAIL_ settings for the URL. Errors do not quote it: it may hold a password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in EMAIL_BACKENDS or parts.query:
        raise ImproperlyConfigured(
            "STOA_EMAIL_URL is not a mail server URL: set it as in smtp+tls://user:password@mail.example:587, "
            "with %2F for a / in the password."
        )
    return {
        "EMAIL_BACKEND": EMAIL_BACKENDS[parts.scheme],
        "EMAIL_HOST": parts.hostname,
        "EMAIL_PORT": port,
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_FILE_PATH": unquote(parts.path.removeprefix("/")),
        "EMAIL_USE_TLS": parts.scheme in ("smtps", "smtp+tls"),
        "EMAIL_USE_SSL": parts.scheme == "smtp+ssl",
    }


def run_dir(var_dir: Path) -> Path:
    """Return the folder of sockets, `var/run`, or the short path to which a demo has linked it.

    Raise ImproperlyConfigured if another user than the link's owns that folder, as in a shared /tmp.
    """
    link = var_dir / "run"
    if not link.is_symlink():
        return link
    path = link.resolve()
    if path.exists() and path.stat().st_uid != link.lstat().st_uid:
        raise ImproperlyConfigured(f"{link} leads to {path}, which belongs to another user: remove the link.")
    return path


def is_development() -> bool:
    """Return whether the settings module is one of development, `base` or `dev`."""
    return os.environ.get("DJANGO_SETTINGS_MODULE", "").endswith((".base", ".dev"))


def var_dir() -> Path:
    """Return the folder of this machine's data, `$STOA_HOME/var` or `var`, and create it."""
    path = Path(env.str("STOA_HOME") or os.getcwd()).resolve() / "var"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.stat().st_mode & 0o077:  # it holds keys and the database: private to its user, whoever made it
            path.chmod(0o700)
    except OSError as error:
        raise ImproperlyConfigured(
            f"The folder {path} cannot be used: {error.strerror}. It must be of the user who runs Stoa, on a disk that "
            "can be written; STOA_HOME names another one."
        ) from error
    return path
