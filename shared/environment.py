"""The environment as settings read it: through `env`, by the names, types and defaults of `shared.variables`. A
misspelt name is refused."""

import os
import re
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured

from shared.variables import VARIABLES, Variable

_DATABASE = re.compile(r"(sqlite|postgres|postgresql|psql|pgsql)://")
TRUE_STRINGS = ("y", "yes", "on", "true", "ok", "1")
FALSE_STRINGS = ("n", "no", "off", "false", "0", "")


_DECLARED = {variable.name: variable for variable in VARIABLES}


class Environment(environ.Env):
    """Reads declared names alone, as what they are declared to be: the library would take `1e3` for 13, and what
    begins with $ for another name. Values may be secrets: of a wrong one the name alone is told."""

    def get_value(self, var: str, *rest: Any, **options: Any) -> Any:
        if var not in _DECLARED:
            raise LookupError("A name that is read from the environment has to be declared in shared/variables.py.")
        variable, text = _DECLARED[var], os.environ.get(var)
        if text is None:
            return variable.default
        return _READERS.get(variable.kind.cast, _read_text)(variable, text)


def _read_text(variable: Variable, text: str) -> str:
    """Nobody is called, or reached at, nothing: then it is the default."""
    _check_shape(variable, text)
    return text or (str(variable.default) if variable.shape else "")


def _read_list(variable: Variable, text: str) -> list[str]:
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    for entry in entries:
        _check_shape(variable, entry)
    return entries


def _check_shape(variable: Variable, text: str) -> None:
    if text and variable.shape and not re.fullmatch(variable.shape.pattern, text):
        raise ImproperlyConfigured(f"{variable.name} is wrong: give it as in {variable.shape.example}.")


def _read_flag(variable: Variable, text: str) -> bool:
    word = text.strip().lower()
    if word not in (*TRUE_STRINGS, *FALSE_STRINGS):
        raise ImproperlyConfigured(f"{variable.name} is neither true nor false.")
    return word in TRUE_STRINGS


def _read_number(variable: Variable, text: str) -> int | float:
    try:
        number: int | float = variable.kind.cast(text)
    except ValueError as error:
        raise ImproperlyConfigured(f"{variable.name} is no number.") from error
    if not isfinite(number) or number < 0:
        raise ImproperlyConfigured(f"{variable.name} is wrong: it is 0 or more.")
    return number


_READERS: dict[type, Callable[[Variable, str], Any]] = {
    list: _read_list, bool: _read_flag, int: _read_number, float: _read_number,
}  # fmt: skip

env = Environment()

# What the environment itself does not say is taken from a file `.env` in $STOA_HOME, or where it was started.
_ENV_FILE = Path(os.environ.get("STOA_HOME", os.getcwd())) / ".env"
if _ENV_FILE.is_file():
    environ.Env.read_env(_ENV_FILE)

# Every name of both projects: one machine often carries one environment file for both.
KNOWN_STOA_NAMES = frozenset(variable.name for variable in VARIABLES if variable.name.startswith("STOA_"))


def refuse_unknown_names() -> None:
    """Raise ImproperlyConfigured for a STOA_ name that nobody reads: it is a misspelling."""
    unknown = sorted(name for name in os.environ if name.startswith("STOA_") and name not in KNOWN_STOA_NAMES)
    if unknown:
        known = ", ".join(sorted(KNOWN_STOA_NAMES))
        raise ImproperlyConfigured(f"Unknown settings {', '.join(unknown)}: check the spelling. Known are: {known}.")


def byte_count(name: str) -> int:
    """A number of bytes, as in 2000000000, 2GB or 2GiB; 0 where nothing is said and there is no default."""
    text = str(env.str(name)).strip()
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?(?:([kMGT])(i?)B)?", text)
    if not text:
        return 0
    if match is None:
        raise ImproperlyConfigured(f"{name} is {text!r}: give bytes, as in 2000000000, 2GB or 2GiB.")
    number, unit, binary = match.groups()
    factor: int = (1024 if binary else 1000) ** ("kMGT".index(unit) + 1 if unit else 0)
    return round(float(number) * factor)


def database(url: str) -> dict[str, Any]:
    """What DATABASE_URL says, as Django's DATABASES have it. It may hold a password: an error does not repeat it."""
    wrong = (
        "DATABASE_URL is no address of a database: give one as in postgres://user:password@host/stoa or "
        "sqlite:////var/lib/stoa/stoa.sqlite3."
    )
    if not _DATABASE.match(url):
        raise ImproperlyConfigured(wrong)
    try:
        config: dict[str, Any] = env.db_url_config(url)
    except ValueError:
        raise ImproperlyConfigured(wrong) from None
    return config


def mail_server(url: str) -> dict[str, Any]:
    """What STOA_EMAIL_URL says, as Django's settings. It may hold a password: an error does not repeat it."""
    try:
        return dict(env.email_url_config(url))
    except (ImproperlyConfigured, ValueError):
        raise ImproperlyConfigured(
            "STOA_EMAIL_URL is no address of a mail server: give one as in smtp+tls://user:password@mail.example:587, "
            "with %2F for a / in the password."
        ) from None


def var_dir() -> Path:
    """Where this machine's data lives (databases, keys, sockets): `$STOA_HOME/var`, or `var` where it was started."""
    path = Path(env.str("STOA_HOME") or os.getcwd()).resolve() / "var"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_mode & 0o077:  # it holds keys and the database: nobody else's, whoever made the folder
        path.chmod(0o700)
    return path
