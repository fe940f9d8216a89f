"""The commands and programs of the documentation run as they are pasted."""

import json
import os
import re
import subprocess
import sys

import pytest

from tests.running_stoa import CHECKOUT, RunningStoa

pytestmark = pytest.mark.timeout(600)  # the first test starts the demo

CODE_BLOCK = re.compile(r"^```(?P<language>sh|python)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL_PAGES = ["docs/shop-client/index.md", "docs/model-client/index.md"]
PYTHON_PAGES = ["docs/model-client/openai.md", "docs/model-client/websocket.md"]


def code_blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of a page, in order."""
    blocks = CODE_BLOCK.finditer((CHECKOUT / page).read_text())
    return [block["code"] for block in blocks if block["language"] == language]


def adapt_to(stoa: RunningStoa, code: str) -> str:
    """Return the code with the addresses, the key, the general model and the data folder of this demo."""
    home = stoa.run_dir.parent.parent
    code = code.replace("http://127.0.0.1:8000", stoa.commerce_url).replace("http://127.0.0.1:8001", stoa.inference_url)
    code = code.replace("ws://127.0.0.1:8001", stoa.inference_url.replace("http", "ws"))
    code = code.replace("export API_KEY=stoa_...", f"export API_KEY={stoa.api_key}").replace(
        '"stoa_..."', f'"{stoa.api_key}"'
    )
    code = code.replace("SmolLM2-135M-Instruct", json.loads((home / "var" / "demo.json").read_text())["model"])
    code = code.replace("var/", f"{home}/var/").replace("curl -s", "curl --fail-with-body -s")
    return code.replace(
        "manage_commerce.py seed\n", "manage_commerce.py seed --small\n"
    )  # tests of `seed` make the rest


def run(stoa: RunningStoa, command: list[str], code: str) -> str:
    """Run the code from the checkout's root, with the environment of the demo; return its output."""
    home = stoa.run_dir.parent.parent
    done = subprocess.run(
        [*command, adapt_to(stoa, code)],
        cwd=CHECKOUT,
        env=os.environ | {"STOA_HOME": str(home), "STOA_RUN_DIR": str(stoa.run_dir)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("page", SHELL_PAGES)
def test_the_shell_commands_of_a_page_work_in_one_shell(stoa: RunningStoa, page: str):
    blocks = code_blocks(page, "sh")
    assert blocks

    output = run(stoa, ["bash", "-e", "-o", "pipefail", "-c"], "".join(blocks))

    assert '"error"' not in output


def test_the_commands_of_the_readme_work_in_one_shell(stoa: RunningStoa):
    output = run(stoa, ["bash", "-e", "-o", "pipefail", "-c"], "".join(code_blocks("README.md", "sh")))

    assert '"error"' not in output
    for text in ("SUPER_ADMIN", "Brunvale Teapot", "lamp", '"done":true', "stoa-encoder", '"unloaded"', "batch_"):
        assert text in output, output


@pytest.mark.parametrize("page", PYTHON_PAGES)
def test_the_python_program_of_a_page_works(stoa: RunningStoa, page: str):
    (program,) = code_blocks(page, "python")

    assert run(stoa, [sys.executable, "-W", "ignore", "-c"], program).strip()
