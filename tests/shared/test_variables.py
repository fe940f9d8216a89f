"""The environment: one list of its names, from which the settings read and the tables are made."""

import ast
import re
from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings as configured
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command

from shared.environment import KNOWN_STOA_NAMES, byte_count, env, mail_server, refuse_unknown_names
from shared.serving.management.commands import settings as settings_command
from shared.variables import VARIABLES, table

pytestmark = pytest.mark.no_database

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = [file for folder in ("shared", "commerce", "inference") for file in (REPOSITORY / folder).rglob("*.py")]
OF_LIBRARIES = {"DJANGO_SETTINGS_MODULE", "TMPDIR", "HF_ENDPOINT", "HF_TOKEN", "NO_COLOR"}


def calls_of_env() -> list[ast.Call]:
    return [
        node
        for file in SOURCES
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "env"
    ]


def test_the_readme_of_each_project_has_the_table_of_the_code() -> None:
    page = (REPOSITORY / configured.PROJECT / "README.md").read_text()
    begin, end = settings_command.BEGIN, settings_command.END
    assert page.partition(begin)[2].partition(end)[0].strip() == table(configured.PROJECT)


def test_the_command_prints_the_table() -> None:
    printed = StringIO()
    call_command("settings", stdout=printed)
    assert printed.getvalue().strip() == table(configured.PROJECT)


def test_the_command_writes_the_table_between_its_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / configured.PROJECT / "README.md"
    page.parent.mkdir()
    page.write_text(f"before\n{settings_command.BEGIN}old\n{settings_command.END}after\n")
    monkeypatch.setattr(settings_command, "REPOSITORY", tmp_path)

    call_command("settings", "--write")

    marks = settings_command.BEGIN, settings_command.END
    assert page.read_text() == f"before\n{marks[0]}\n{table(configured.PROJECT)}\n\n{marks[1]}after\n"


def test_every_variable_is_declared_once_and_says_what_it_is() -> None:
    names = [variable.name for variable in VARIABLES]
    assert len(names) == len(set(names))
    assert [variable.name for variable in VARIABLES if not variable.meaning or "|" in variable.meaning] == []


def test_every_declared_variable_is_read_somewhere() -> None:
    others = [file.read_text() for file in SOURCES if file.name != "variables.py"]
    unread = {
        variable.name for variable in VARIABLES if not any(re.search(rf'"{variable.name}"', text) for text in others)
    }
    assert {name for name in unread - OF_LIBRARIES if not name.startswith("OTEL_")} == set()


def test_no_default_stands_beside_the_declared_ones() -> None:
    assert len(calls_of_env()) > 50
    assert [ast.unparse(call) for call in calls_of_env() if len(call.args) > 1 or call.keywords] == []


def test_a_name_that_is_not_declared_cannot_be_read() -> None:
    with pytest.raises(LookupError, match=r"variables\.py"):
        env.str("STOA_SOMETHING_NEW")


def test_a_misspelt_name_is_refused_with_the_names_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOA_ALOWED_HOSTS", "shop.example")
    with pytest.raises(ImproperlyConfigured, match=r"Unknown settings STOA_ALOWED_HOSTS: .* STOA_ALLOWED_HOSTS"):
        refuse_unknown_names()
    assert "STOA_ALLOWED_HOSTS" in KNOWN_STOA_NAMES


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("STOA_TRUSTED_PROXIES", "-1"),  # the client's own entry of X-Forwarded-For would be believed
        ("STOA_REQUEST_LIMIT", "-5"),
        ("STOA_REQUEST_LIMIT", ""),
        ("STOA_BATCH_KEEP_DAYS", "nan"),
        ("STOA_BATCH_KEEP_DAYS", "1,5"),
        ("STOA_METRICS_PUBLIC", "maybe"),
        ("REDIS_URL", "localhost:6379"),
        ("REDIS_URL", "redis://localhost:hidden"),
        ("STOA_BROKER_URL", "rabbitmq"),
        ("STOA_EMAIL_LINKS", "www.shop.example"),
        ("STOA_EMAIL_FROM", "nobody"),
        ("STOA_DESCRIPTIONS_BASE_URL", "models.example/v1"),
        ("STOA_S3_ENDPOINT", "minio:9000"),
        ("STOA_CLAMD", "clamd:3310"),
        ("STOA_CURRENCY", "euro"),
        ("STOA_ALLOWED_HOSTS", "https://shop.example"),
        ("STOA_ALLOWED_HOSTS", "shop.example shop.test"),
        ("STOA_CORS_ORIGINS", "https://shop.example,shop.test"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch, name: str, wrong: str
) -> None:
    monkeypatch.setenv(name, wrong)
    with pytest.raises(ImproperlyConfigured, match=f"^{name} is ") as refused:
        env.get_value(name)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "given", "read"),
    [
        ("STOA_ALLOWED_HOSTS", "shop.example, [::1] ,.shop.test,", ["shop.example", "[::1]", ".shop.test"]),
        ("STOA_LOAD", "", []),
        ("STOA_LOAD", "stoa-describer, stoa-encoder", ["stoa-describer", "stoa-encoder"]),
        ("STOA_TRUSTED_PROXIES", " 2 ", 2),
        ("STOA_BATCH_KEEP_DAYS", "1e1", 10.0),
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
def test_a_value_is_read_as_what_it_is_declared_to_be(
    monkeypatch: pytest.MonkeyPatch, name: str, given: str, read: object
) -> None:
    monkeypatch.setenv(name, given)
    assert env.get_value(name) == read


@pytest.mark.parametrize(
    "url", ["mail.example:587", "foo://mail.example", "smtp+tls://shop:hid/den@mail.example:587", "smtp://mail:no"]
)
def test_an_address_of_no_mail_server_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="STOA_EMAIL_URL") as refused:
        mail_server(url)
    assert "hid" not in str(refused.value)
    assert refused.value.__suppress_context__  # which tells a part of the password as a port


def test_every_default_and_example_has_the_shape_that_is_asked_for() -> None:
    for variable in VARIABLES:
        given = variable.default if isinstance(variable.default, list) else [str(variable.default)]
        if variable.shape:
            alternatives = variable.shape.example.partition(", ")[0].split(" or ")
            for text in (*filter(None, given), *alternatives):
                assert re.fullmatch(variable.shape.pattern, text), (variable.name, text)


@pytest.mark.parametrize(
    ("given", "read"),
    [(None, 200 * 1024**2), ("2000", 2000), ("1.5kB", 1500), ("2GiB", 2 * 1024**3), ("", 0)],
)
def test_bytes_are_read_with_their_units(monkeypatch: pytest.MonkeyPatch, given: str | None, read: int) -> None:
    if given is None:
        monkeypatch.delenv("STOA_MAX_FILE_BYTES", raising=False)
    else:
        monkeypatch.setenv("STOA_MAX_FILE_BYTES", given)
    assert byte_count("STOA_MAX_FILE_BYTES") == read


def test_what_is_no_number_of_bytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOA_MAX_FILE_BYTES", "much")
    with pytest.raises(ImproperlyConfigured, match="STOA_MAX_FILE_BYTES"):
        byte_count("STOA_MAX_FILE_BYTES")
