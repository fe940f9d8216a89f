"""Row I1: responses to generated requests, valid and invalid, match the OpenAPI document.

The everyday run is short; with `FUZZ_EXAMPLES=60` in the environment it makes more than ten thousand requests.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commerce.descriptions.provider.fake_server import ProviderServer
from tests.commerce.live_server import ServedShop, served_shop

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "2"))
PHASES = "examples,coverage,fuzzing,stateful" if EXAMPLES > 2 else "examples,fuzzing,stateful"
# Three checks exceed the contract: that everything that fits the schema is accepted (a review of a product that is
# missing is 422), that nothing else is (1 is accepted as true, and an invalid page as the first, as clients expect),
# and that the creator of a record may change it (a question is answered by the shop's members; others get 404).
NOT_PROMISED = "positive_data_acceptance,negative_data_rejection,ensure_resource_availability"
TIMEOUT_SECONDS = 120 + 30 * EXAMPLES

pytestmark = [pytest.mark.timeout(TIMEOUT_SECONDS + 200), pytest.mark.no_database]


@pytest.fixture(scope="module")
def shop() -> Iterator[ServedShop]:
    provider = ProviderServer()
    provider.start()
    with served_shop(provider_url=provider.url("good")) as served:
        yield served
    provider.stop()


@pytest.mark.parametrize("role", ["STORE_OWNER"] if EXAMPLES <= 2 else ["STORE_OWNER", "SUPER_ADMIN", "CUSTOMER"])
def test_i1_responses_to_generated_requests_match_the_openapi_document(shop: ServedShop, role: str, tmp_path: Path):
    options = {
        "--header": f"Authorization: Bearer {shop.api_key(role)}",
        "--phases": PHASES,
        "--mode": "all",
        "--max-examples": str(EXAMPLES),
        "--checks": "all",
        "--exclude-checks": NOT_PROMISED,
        "--max-response-time": "30",
        "--seed": "7",
        "--suppress-health-check": "all",
    }
    schemathesis = Path(sys.executable).with_name("st")
    done = subprocess.run(
        [
            schemathesis,
            "run",
            f"{shop.url}/api/openapi.json",
            "--no-color",
            "--continue-on-failure",
            *sum(options.items(), ()),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    told = re.search(r"(\d+) generated, .*", done.stdout)
    print(told[0] if told else done.stdout)
    assert done.returncode == 0, done.stdout[-20_000:]
    assert told
    assert int(told[1]) > 200
    assert "Traceback" not in shop.log.read_text()
