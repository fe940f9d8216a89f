"""The environment: declared variables, their documentation and their values."""

import ast
import os
import re
from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings as configured
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command

from shared.environment import (
    KNOWN_STOA_NAMES,
    database,
    env,
    ignore_unknown_names,
    load_env_file,
    mail_server,
    refuse_unknown_names,
    run_dir,
)
from shared.serving.management.commands import settings as settings_command
from shared.serving.management.commands.settings import PAGE, settings_page
from shared.variables import VARIABLES

pytestmark = [pytest.mark.each_project, pytest.mark.no_database]

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = [file for folder in ("shared", "commerce", "inference") for file in (REPOSITORY / folder).rglob("*.py")]
READ_BY_LIBRARIES = {"DJANGO_SETTINGS_MODULE", "TMPDIR", "HF_ENDPOINT", "HF_TOKEN", "NO_COLOR"}


def env_calls() -> list[ast.Call]:
    """Return the calls of methods of `env` in the settings."""
    return [
        node
        for file in SOURCES
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "env"
    ]


def test_the_settings_page_is_the_generated_one() -> None:
    assert PAGE.read_text() == settings_page(), "run `python manage_commerce.py settings --write`"


def test_the_command_prints_the_variables_of_its_project() -> None:
    printed = StringIO()
    call_command("settings", stdout=printed)
    names = re.findall(r"^\| `(\w+)`", printed.getvalue(), flags=re.MULTILINE)
    assert names == [variable.name for variable in VARIABLES if configured.PROJECT in variable.projects]


def test_the_command_writes_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings_command, "PAGE", tmp_path / "settings.md")
    call_command("settings", "--write")
    assert (tmp_path / "settings.md").read_text() == settings_page()


def test_every_variable_is_declared_once_and_has_a_description() -> None:
    names = [variable.name for variable in VARIABLES]
    assert len(names) == len(set(names))
    assert [variable.name for variable in VARIABLES if not variable.description or "|" in variable.description] == []


def test_every_declared_variable_is_read_somewhere() -> None:
    others = [file.read_text() for file in SOURCES if file.name != "variables.py"]
    unread = {
        variable.name for variable in VARIABLES if not any(re.search(rf'"{variable.name}"', text) for text in others)
    }
    assert {name for name in unread - READ_BY_LIBRARIES if not name.startswith("OTEL_")} == set()


def test_settings_read_variables_without_other_defaults() -> None:
    assert len(env_calls()) > 50
    assert [ast.unparse(call) for call in env_calls() if len(call.args) > 1 or call.keywords] == []


def test_an_undeclared_name_cannot_be_read() -> None:
    with pytest.raises(LookupError, match=r"variables\.py"):
        env.str("STOA_SOMETHING_NEW")


def test_a_variable_cannot_be_read_as_another_type() -> None:
    with pytest.raises(LookupError, match="STOA_DEBUG"):
        env.int("STOA_DEBUG")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("STOA_ALOWED_HOSTS", "STOA_ALOWED_HOSTS is not a known setting: did you mean STOA_ALLOWED_HOSTS?"),
        ("STOA_SOCKET", "STOA_SOCKET is not a known setting: did you mean STOA_MAX_WEBSOCKETS?"),
        ("STOA_XYZ", "STOA_XYZ is not a known setting: docs/operator/settings.md lists the known ones."),
        ("STOA_SOCKETS", "STOA_SOCKETS has been renamed: set STOA_MAX_WEBSOCKETS instead."),
    ],
)
def test_an_unknown_name_is_refused_with_the_one_that_was_meant(
    monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    monkeypatch.setenv(name, "shop.example")
    with pytest.raises(ImproperlyConfigured, match=f"^{re.escape(message)}$"):
        refuse_unknown_names()


def test_a_client_is_warned_of_an_unknown_name_and_goes_on_without_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STOA_KEY", "stoa_1_x")
    ignore_unknown_names()
    refuse_unknown_names()
    error = capsys.readouterr().err
    assert error.startswith("Warning: STOA_KEY is not a known setting")
    assert "stoa_1_x" not in error


def test_a_folder_of_sockets_is_not_looked_for_at_another_user(tmp_path: Path) -> None:
    link = tmp_path / "run"
    assert run_dir(tmp_path) == link
    (tmp_path / "short").mkdir()
    link.symlink_to(tmp_path / "short")
    assert run_dir(tmp_path) == tmp_path.resolve() / "short"
    link.unlink()
    theirs = Path("/usr")
    if os.geteuid() == 0:
        theirs = tmp_path / "theirs"
        theirs.mkdir()
        os.chown(theirs, 65534, -1)
    link.symlink_to(theirs)
    with pytest.raises(ImproperlyConfigured, match="belongs to another user: remove the link"):
        run_dir(tmp_path)


def test_a_former_name_is_not_the_name_of_another_variable() -> None:
    former = [variable.former_name for variable in VARIABLES if variable.former_name]
    assert len(former) == len(set(former))
    assert KNOWN_STOA_NAMES.isdisjoint(former)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("STOA_TRUSTED_PROXY_COUNT", "-1"),  # a client's own entry of X-Forwarded-For would be trusted
        ("STOA_REQUESTS_PER_MINUTE", "-5"),
        ("STOA_REQUESTS_PER_MINUTE", ""),
        ("STOA_MAX_BODY_BYTES", "0"),
        ("STOA_MAX_BODY_BYTES", ""),
        ("STOA_MAX_FILE_BYTES", "9" * 400),
        ("STOA_BATCH_RETENTION_DAYS", "nan"),
        ("STOA_BATCH_RETENTION_DAYS", "1,5"),
        ("STOA_METRICS_PUBLIC", "maybe"),
        ("REDIS_URL", "localhost:6379"),
        ("REDIS_URL", "redis://localhost:hidden"),
        ("STOA_BROKER_URL", "rabbitmq"),
        ("STOA_STOREFRONT_URL", "www.shop.example"),
        ("STOA_EMAIL_FROM", "nobody"),
        ("STOA_DESCRIPTIONS_BASE_URL", "models.example/v1"),
        ("STOA_S3_ENDPOINT", "minio:9000"),
        ("STOA_CLAMD", "clamd:3310"),
        ("STOA_CURRENCY", "euro"),
        ("STOA_STORAGE", "disk"),
        ("STOA_MODERATION_APPEAL_DAYS", "36501"),
        ("STOA_ALLOWED_HOSTS", "https://shop.example"),
        ("STOA_ALLOWED_HOSTS", "shop.example shop.test"),
        ("STOA_CORS_ORIGINS", "https://shop.example,shop.test"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"),
    ],
)
def test_an_invalid_value_is_refused_by_name_and_not_quoted(
    monkeypatch: pytest.MonkeyPatch, name: str, wrong: str
) -> None:
    monkeypatch.setenv(name, wrong)
    with pytest.raises(ImproperlyConfigured, match=f"^{name} is ") as refused:
        env.read(name)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("STOA_ALLOWED_HOSTS", "shop.example, [::1] ,.shop.test,", ["shop.example", "[::1]", ".shop.test"]),
        ("STOA_LOAD", "", []),
        ("STOA_LOAD", "stoa-describer, stoa-encoder", ["stoa-describer", "stoa-encoder"]),
        ("STOA_TRUSTED_PROXY_COUNT", " 2 ", 2),
        ("STOA_BATCH_RETENTION_DAYS", "1e1", 10.0),
        ("STOA_METRICS_PUBLIC", "Yes", True),
        ("STOA_START_HOST", "", False),
        ("STOA_EMAIL_FROM", "", "Stoa <stoa@localhost>"),
        ("SECRET_KEY", "$as it is", "$as it is"),
        ("REDIS_URL", "rediss://:pass-word@[::1]:6380/1?timeout=2", "rediss://:pass-word@[::1]:6380/1?timeout=2"),
        ("REDIS_URL", "unix:///run/redis.sock?db=0", "unix:///run/redis.sock?db=0"),
        ("STOA_CLAMD", "unix:///run/clamav/clamd.ctl", "unix:///run/clamav/clamd.ctl"),
        ("STOA_BROKER_URL", "amqp://stoa:secret@rabbitmq/stoa", "amqp://stoa:secret@rabbitmq/stoa"),
    ],
)
def test_a_value_is_read_as_its_declared_type(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, value: object
) -> None:
    monkeypatch.setenv(name, text)
    assert env.read(name) == value


@pytest.mark.parametrize(
    "url",
    [
        "mail.example:587",
        "smtp://mail.example?EMAIL_USE_TLS=1",
        "foo://mail.example",
        "smtp+tls://shop:hid/den@mail.example:587",
        "smtp://mail:no",
    ],
)
def test_an_invalid_mail_server_url_is_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="STOA_EMAIL_URL") as refused:
        mail_server(url)
    assert "hid" not in str(refused.value)
    assert refused.value.__context__ is None  # urllib quotes a part of the password as a port


def test_a_mail_server_url_becomes_djangos_settings() -> None:
    assert mail_server("smtp+tls://shop%40example:p%2Fa+ss@mail.example:587") == {
        "EMAIL_BACKEND": "django.core.mail.backends.smtp.EmailBackend",
        "EMAIL_HOST": "mail.example",
        "EMAIL_PORT": 587,
        "EMAIL_HOST_USER": "shop@example",
        "EMAIL_HOST_PASSWORD": "p/a+ss",
        "EMAIL_FILE_PATH": "",
        "EMAIL_USE_TLS": True,
        "EMAIL_USE_SSL": False,
    }


POSTGRESQL = {"ENGINE": "django.db.backends.postgresql"}
SQLITE = {"ENGINE": "django.db.backends.sqlite3"}


@pytest.mark.parametrize(
    ("url", "config"),
    [
        ("sqlite:////var/lib/stoa/50%25%20a+b.sqlite3", SQLITE | {"NAME": "/var/lib/stoa/50% a+b.sqlite3"}),
        ("sqlite:///stoa.sqlite3", SQLITE | {"NAME": "stoa.sqlite3"}),
        ("sqlite:////stoa.sqlite3?timeout=20", SQLITE | {"NAME": "/stoa.sqlite3"}),
        ("sqlite://:memory:", SQLITE | {"NAME": ":memory:"}),
        (
            "postgres://stoa:p%2Fa+ss@db.example:5433/shop?sslmode=require",
            POSTGRESQL
            | {"NAME": "shop", "USER": "stoa", "PASSWORD": "p/a+ss", "HOST": "db.example", "PORT": "5433"}
            | {"OPTIONS": {"sslmode": "require"}},
        ),
        (
            "postgres://stoa@x:p@ss@db.example/shop?application_name=a@b",
            POSTGRESQL
            | {"NAME": "shop", "USER": "stoa@x", "PASSWORD": "p@ss", "HOST": "db.example", "PORT": ""}
            | {"OPTIONS": {"application_name": "a@b"}},
        ),
        (
            "postgresql://one:5432,two:5433/shop",
            POSTGRESQL
            | {"NAME": "shop", "USER": "", "PASSWORD": "", "HOST": "one,two", "PORT": "5432,5433"}
            | {"OPTIONS": {}},
        ),
        (
            "psql:///shop?host=/run/postgresql",
            POSTGRESQL
            | {"NAME": "shop", "USER": "", "PASSWORD": "", "HOST": "/run/postgresql", "PORT": ""}
            | {"OPTIONS": {}},
        ),
    ],
)
def test_a_database_url_becomes_djangos_settings(url: str, config: dict[str, object]) -> None:
    assert database(url) == config


@pytest.mark.parametrize(
    "url",
    [
        "", "nonsense", "mysql://host/stoa", "sqlite://host/stoa", "postgres://", "postgres://stoa:hid@host:port/stoa",
        "postgres://stoa:hid/den@host/stoa", "postgres://stoa:hid%zzden@host/stoa", "postgres://host/stoa?hid=1",
    ],
)  # fmt: skip
def test_an_invalid_database_url_is_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^DATABASE_URL is not a database URL") as refused:
        database(url)
    assert "hid" not in str(refused.value)
    assert refused.value.__context__ is None


def test_a_variable_of_the_environment_wins_over_the_env_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text(
        "# comment\n\nSTOA_LOAD=from-file\nexport STOA_CURRENCY=USD \n"
        'STOA_EMAIL_FROM=\'Stoa \\ <a@b>\'\nSTOA_S3_REGION="a \\"b\\" #c"\n'
    )
    monkeypatch.setenv("STOA_HOME", str(tmp_path))
    for name in ("STOA_CURRENCY", "STOA_EMAIL_FROM", "STOA_S3_REGION"):
        monkeypatch.setenv(name, "")  # restored after the test
        monkeypatch.delenv(name)
    monkeypatch.setenv("STOA_LOAD", "from-environment")

    load_env_file()

    assert env.list("STOA_LOAD") == ["from-environment"]
    assert env.str("STOA_CURRENCY") == "USD"
    assert env.str("STOA_EMAIL_FROM") == "Stoa \\ <a@b>"
    assert env.str("STOA_S3_REGION") == 'a "b" #c'


def test_the_last_line_with_a_name_counts_in_the_env_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".env").write_text("STOA_CURRENCY=USD\nSTOA_CURRENCY=SEK\n")
    monkeypatch.setenv("STOA_HOME", str(tmp_path))
    monkeypatch.setenv("STOA_CURRENCY", "")  # restored after the test
    monkeypatch.delenv("STOA_CURRENCY")

    load_env_file()

    assert env.str("STOA_CURRENCY") == "SEK"


def test_an_invalid_line_of_the_env_file_is_refused_and_not_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".env").write_text("\nSECRET_KEY: hidden\n")
    monkeypatch.setenv("STOA_HOME", str(tmp_path))
    with pytest.raises(ImproperlyConfigured, match=r"^Line 2 of .*\.env is not valid") as refused:
        load_env_file()
    assert "hidden" not in str(refused.value)


def test_every_default_and_example_has_the_required_format() -> None:
    for variable in VARIABLES:
        defaults = variable.default if isinstance(variable.default, list) else [str(variable.default)]
        for text in (*filter(None, defaults), *(variable.format.examples if variable.format else ())):
            if variable.format:
                assert re.fullmatch(variable.format.pattern, text), (variable.name, text)


@pytest.mark.parametrize(
    ("text", "size"),
    [(None, 200 * 1024**2), ("2000", 2000), ("1.5kB", 1500), ("2GiB", 2 * 1024**3), ("", 0)],
)
def test_sizes_are_read_with_their_units(monkeypatch: pytest.MonkeyPatch, text: str | None, size: int) -> None:
    if text is None:
        monkeypatch.delenv("STOA_MAX_FILE_BYTES", raising=False)
    else:
        monkeypatch.setenv("STOA_MAX_FILE_BYTES", text)
    assert env.bytes("STOA_MAX_FILE_BYTES") == size


def test_an_invalid_size_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOA_MAX_FILE_BYTES", "much")
    with pytest.raises(ImproperlyConfigured, match=r"^STOA_MAX_FILE_BYTES is "):
        env.bytes("STOA_MAX_FILE_BYTES")
