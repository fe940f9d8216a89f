"""The environment as settings read it: through `env`, by the names, types and defaults of `shared.variables`. A
misspelt name is refused."""

import os
import re
from pathlib import Path
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured

from shared.variables import VARIABLES

_DATABASE = re.compile(r"(sqlite|postgres|postgresql|psql|pgsql)://")
FALSE_STRINGS = ("n", "no", "off", "false", "0", "")


class Environment(environ.Env):
    """Reads declared names alone, and refuses a value that cannot be what it is read as. Values may be secrets: the
    name alone is told."""

    def get_value(self, var: str, cast: Any = None, *rest: Any, **options: Any) -> Any:
        if var not in self.scheme:
            raise LookupError("A name that is read from the environment has to be declared in shared/variables.py.")
        text = os.environ.get(var, "").lower()
        if cast is bool and text not in (*self.BOOLEAN_TRUE_STRINGS, *FALSE_STRINGS):
            raise ImproperlyConfigured(f"{var} is neither true nor false.")
        try:
            return super().get_value(var, cast, *rest, **options)
        except ValueError as error:
            raise ImproperlyConfigured(f"{var} is no {'number' if cast in (int, float) else 'such value'}.") from error


env = Environment(**{variable.name: (variable.kind.cast, variable.default) for variable in VARIABLES})

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
    except ValueError as error:
        raise ImproperlyConfigured(wrong) from error
    return config


def var_dir() -> Path:
    """Where this machine's data lives (databases, keys, sockets): `$STOA_HOME/var`, or `var` where it was started."""
    path = Path(env.str("STOA_HOME") or os.getcwd()).resolve() / "var"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_mode & 0o077:  # it holds keys and the database: nobody else's, whoever made the folder
        path.chmod(0o700)
    return path
