"""Tables of facts in the manual agree with the code that declares the facts."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from inference.engine.formats import FAMILIES
from inference.protocol.errors import ErrorCode
from inference.protocol.fields import SYSTEM_FINGERPRINT
from inference.protocol.native.inference import InferenceRequest
from shared.api.errors import DEFAULT_CODES
from shared.variables import VARIABLES
from tests.commerce.routes.route_table import TABLE
from tests.docs.pages import CHECKOUT, table_rows

DOCS = CHECKOUT / "docs"
REQUEST = re.compile(r"(?:`|, )(GET|POST|PUT|PATCH|DELETE) (/[\w/{}.\-]*)")
METRIC = re.compile(r"\"stoa_(\w+)\"")
SEED_BOUNDS = "64 bits, signed"


def sources(*folders: str) -> str:
    """Return all Python code of these folders as one text."""
    return "\n".join(path.read_text() for folder in folders for path in sorted((CHECKOUT / folder).rglob("*.py")))


def route_shape(path: str) -> str:
    """Return a route with every parameter as `{}`."""
    return re.sub(r"\{[^}]*\}|<[^>]*>", "{}", path)


def test_every_sampling_parameter_has_its_row_with_default_and_bounds():
    rows = table_rows(DOCS / "model-client" / "rest.md", "| parameter | default of `/inference` | bounds | meaning |")
    properties = msgspec.json.schema(InferenceRequest)["$defs"]["InferenceRequest"]["properties"]
    declared = {name: schema for name, schema in properties.items() if name not in ("model", "prompt")}
    expected = {
        f"`{name}`": (documented_default(name, schema), documented_bounds(schema)) for name, schema in declared.items()
    }
    assert {name: (default, bounds) for name, default, bounds, _ in rows} == expected


def test_every_family_with_a_decoder_of_its_own_has_its_row():
    rows = table_rows(DOCS / "operator" / "models.md", "| family | computed by | sliding windows | GGUF files |")
    own = {name: windows for name, code, windows, _ in rows if code.startswith("own decoders")}
    assert own == {family.name: "yes" if "sliding_window" in family.reads else "none" for family in FAMILIES.values()}


def documented_default(name: str, schema: dict[str, Any]) -> str:
    default = False if name == "stream" else schema.get("default")
    return "" if default is None else str(default).lower()


def documented_bounds(schema: dict[str, Any]) -> str:
    value = next((option for option in schema.get("anyOf", [schema]) if option.get("type") != "null"), schema)
    if value.get("type") == "array":
        if value["items"]["type"] == "integer":
            return f"up to {value['maxItems']} ids"
        return f"up to {value['maxItems']} of {value['items']['minLength']} to {value['items']['maxLength']} characters"
    if value.get("type") == "object":
        numbers = value["additionalProperties"]
        return f"up to {value['maxProperties']} ids with {numbers['minimum']} to {numbers['maximum']}"
    if value.get("type") == "string":
        return f"up to {value['maxLength']} characters"
    if "exclusiveMinimum" in value:
        return f"above {value['exclusiveMinimum']} to {value['maximum']}"
    if value.get("minimum") == -(2**63):
        return SEED_BOUNDS
    return f"{value['minimum']} to {value['maximum']}" if "minimum" in value else ""


def test_every_error_code_of_the_model_server_is_documented():
    rows = table_rows(DOCS / "model-client" / "errors.md", "| code | status | what to do |")
    assert {code for code, _, _ in rows} == {f"`{code}`" for code in ErrorCode}


def test_every_error_code_of_the_shop_is_documented_with_its_status():
    rows = table_rows(DOCS / "shop-client" / "errors.md", "| status | `code` | what to do |")
    assert {(int(status), code) for status, code, _ in rows} == {(s, f"`{code}`") for s, code in DEFAULT_CODES.items()}


def test_every_exit_code_of_the_command_line_is_documented():
    rows = table_rows(DOCS / "operator" / "command-line.md", "| exit code | meaning |")
    declared = re.findall(r"^EXIT_\w+ = (\d+)", (CHECKOUT / "inference/cli/errors.py").read_text(), re.MULTILINE)
    assert {code for code, _ in rows} == {"0", "130", *declared}


def test_every_command_of_the_command_line_is_documented():
    page = (DOCS / "operator" / "command-line.md").read_text()
    app = (CHECKOUT / "inference/cli/app.py").read_text()
    commands = re.findall(r"app\.command\(\)\((?:\w+\.)?(\w+)\)|add_typer\((?:\w+\.)?\w+, name=\"(\w+)\"", app)
    names = {first or second for first, second in commands}
    assert {"serve", "run", "models", "batch"} <= names
    assert [name for name in sorted(names) if not re.search(rf"`{name}\b", page)] == []


def test_every_close_code_of_the_websocket_is_declared():
    rows = table_rows(DOCS / "model-client" / "websocket.md", "| close code | reason |")
    code = sources("inference/generation", "shared/serving")
    assert len(rows) >= 5
    assert [number for number, _ in rows if not re.search(rf" = {number}\b", code)] == []


def test_the_limits_per_minute_are_the_defaults_of_the_settings():
    page = DOCS / "shop-client" / "errors.md"
    defaults = {f"`{variable.name}`": str(variable.default) for variable in VARIABLES}
    for _, limit, setting in table_rows(page, "| what | per minute | setting |"):
        assert limit == defaults[setting], setting
    rows = table_rows(
        DOCS / "model-client" / "limits.md", "| per minute, by default | requests | tokens | concurrent requests |"
    )
    settings = [("KEY", rows[0]), ("USER", rows[1]), ("ADDRESS", rows[2])]
    for owner, (_, requests, tokens, concurrent) in settings:
        assert requests.replace(",", "") == defaults[f"`STOA_{owner}_REQUESTS_PER_MINUTE`"]
        if owner != "ADDRESS":
            assert tokens.replace(",", "") == defaults[f"`STOA_{owner}_TOKENS_PER_MINUTE`"]
            assert concurrent == defaults[f"`STOA_{owner}_CONCURRENCY_LIMIT`"]


def test_every_metric_is_documented_and_every_documented_metric_exists():
    page = DOCS / "operator" / "monitoring.md"
    rows = [
        row
        for line in page.read_text().splitlines()
        if (row := re.match(r"\| (`[a-z0-9_`, ]+`) \| (gauge|counter|histogram)", line))
    ]
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row[1])}
    declared = set(METRIC.findall(sources("shared", "inference", "commerce")))
    assert documented <= declared
    assert {name for name in declared - documented if re.search(r"_(total|seconds)$", name)} == set()


def test_every_log_event_that_the_manual_names_is_logged():
    text = (DOCS / "operator" / "monitoring.md").read_text()
    section = text[text.index("## Logs") : text.index("| field | meaning |")]
    events = re.findall(r"`([a-z_]+)`", section)
    assert "request" in events
    code = sources("shared", "inference", "commerce")
    assert [event for event in events if f'"{event}"' not in code] == []


@pytest.mark.parametrize("page", sorted((DOCS / "shop-client").glob("*.md")), ids=lambda page: page.stem)
def test_every_request_to_the_shop_that_a_page_names_exists(page: Path):
    routes = {(row.method, route_shape(row.route)) for row in TABLE}
    paths = {path for _, path in routes}
    named = [(method, path) for method, path in REQUEST.findall(page.read_text()) if path.startswith("/api/")]
    documented_only = {"/api/docs", "/api/openapi.json"}
    missing = [
        f"{method} {path}"
        for method, path in named
        if (method, route_shape(path)) not in routes and path not in documented_only and route_shape(path) not in paths
    ]
    assert missing == []


@pytest.mark.parametrize("page", sorted((DOCS / "model-client").glob("*.md")), ids=lambda page: page.stem)
def test_every_request_to_the_model_server_that_a_page_names_exists(page: Path):
    code = sources("inference")
    routes = {route_shape(f"/{route}") for route in re.findall(r"\bpath\(\s*\"([^\"]+)\"", code)}
    routes |= {f"/{prefix}" for prefix in ("metrics", "asyncapi.json", "openapi.json")}
    named = [route_shape(path) for _, path in REQUEST.findall(page.read_text()) if not path.startswith("/api/")]
    assert [path for path in named if path not in routes] == []


def test_every_renamed_setting_is_in_the_changelog():
    changelog = (CHECKOUT / "CHANGELOG.md").read_text()
    renamed = [variable for variable in VARIABLES if variable.former_name]
    assert renamed
    assert [one.name for one in renamed if f"| `{one.former_name}` | `{one.name}` |" not in changelog] == []


def test_one_version_of_the_product_is_named_everywhere():
    stated = re.search(r'^VERSION = "(.+)"$', (CHECKOUT / "shared" / "settings.py").read_text(), re.M)
    assert stated
    version = stated[1]
    assert f'\nversion = "{version}"\n' in (CHECKOUT / "pyproject.toml").read_text()
    assert f"stoa-{version}" == SYSTEM_FINGERPRINT
    assert re.findall(r"^## \[([\d.]+)\]", (CHECKOUT / "CHANGELOG.md").read_text(), re.M)[0] == version
    images = re.compile(r"(?:stoa/[\w-]+:|newTag: )(\d[\w.]*)")
    files = [path for folder in ("deploy", "docs") for path in (CHECKOUT / folder).rglob("*") if path.is_file()]
    named = {tag for path in files if path.suffix not in (".png", ".pyc") for tag in images.findall(path.read_text())}
    assert named == {version}
