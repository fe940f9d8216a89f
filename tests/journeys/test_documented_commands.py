"""Every page's code blocks run as they are pasted: its shell commands in one shell, then its Python as one program."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.commands import CodeBlock, all_sections
from tests.running_stoa import CHECKOUT, RunningStoa

pytestmark = pytest.mark.timeout(600)  # the first test starts the demo

# Commands that do not run here, by how they begin, and why. tests/docs/test_commands.py checks their names and options.
LEFT_OUT = {
    "deploy/run demo": "the demo of these tests is running",
    "deploy/run test": "this is one of its tests",
    "deploy/run bench": "takes minutes",
    "deploy/run backup": "tests/deploy/steps/test_backup.py runs it",
    "STOA_HOME=/var/lib/stoa-restored": "tests/deploy/steps/test_backup.py restores",
    ".venv/bin/python -m inference.builtin": "trains for hours",
    ".venv/bin/python manage_commerce.py serve": "runs until it is stopped; the demo runs it",
    ".venv/bin/stoa serve": "runs until it is stopped; the demo runs it",
    ".venv/bin/stoa worker": "runs until it is stopped; the demo runs it",
    ".venv/bin/celery": "runs until it is stopped; the demo runs it",
}
# Pages that run elsewhere, or have no programs.
LEFT_OUT_PAGES = {
    "docs/operator/cluster.md": "`deploy/run bench cluster` runs it on simulated machines, and test_cluster.py a part",
    "docs/model-client/webhooks.md": "tests/conformance/test_webhook_example.py runs its command and its receiver",
    "CONTRIBUTING.md": "it runs tests, and its Python is parts of classes",
}
# A shorter command in place of a long one: the small data set takes 2 s, and the tests of `seed` make the large one.
SHORTER = {"manage_commerce.py seed\n": "manage_commerce.py seed --small\n"}
MARK = "-- block "  # printed before each block
# An HTTP error ends a page, unlike in a reader's shell.
PRELUDE = 'curl() { command curl --fail-with-body "$@"; }\n'
PRINTED_BY_README = ("SUPER_ADMIN", "Brunvale Teapot", "lamp", '"done":true', "stoa-encoder", '"unloaded"', "batch_")


def pages() -> dict[str, list[CodeBlock]]:
    """Return the blocks of each page that run here: of the shell in their order, and one with all of its Python."""
    found: dict[str, list[CodeBlock]] = {}
    for section in all_sections():
        if not section.not_tried and section.page not in LEFT_OUT_PAGES:
            found.setdefault(section.page, []).extend(section.blocks)
    runnable = {page: [*shell_blocks(blocks), *python_blocks(blocks)] for page, blocks in found.items()}
    return {page: blocks for page, blocks in runnable.items() if blocks}


def shell_blocks(blocks: list[CodeBlock]) -> Iterator[CodeBlock]:
    for block in blocks:
        lines = block.code.replace("\\\n", "\\\0").splitlines(keepends=True)  # a continued line is one
        code = "".join(line.replace("\0", "\n") for line in lines if not line.startswith(tuple(LEFT_OUT)))
        if block.language == "sh" and code:
            yield CodeBlock("sh", code, block.answer)


def python_blocks(blocks: list[CodeBlock]) -> Iterator[CodeBlock]:
    if program := "".join(block.code for block in blocks if block.language == "python"):
        yield CodeBlock("sh", f".venv/bin/python -W ignore - <<'PROGRAM'\n{program}PROGRAM\n")


PAGES = pages()


@pytest.fixture(scope="module")
def reader(stoa: RunningStoa) -> tuple[Path, dict[str, str]]:
    """Return a folder like a reader's checkout, with the demo's data in `var`, and the variables that README sets."""
    home = stoa.run_dir.parent.parent
    for name in ("deploy", "inference", "manage_commerce.py", "manage_inference.py"):
        (home / name).symlink_to(CHECKOUT / name)
    (home / ".venv").symlink_to(sys.prefix)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STOA_")}
    environment |= {"STOA_HOME": str(home), "STOA_RUN_DIR": str(stoa.run_dir)}
    model = json.loads((home / "var" / "demo.json").read_text())["model"]
    readme = {"API_KEY": stoa.api_key, "MODEL": model, "TOKEN": stoa.login("STORE_OWNER")}
    return home, environment | readme


def adapt_to(stoa: RunningStoa, script: str) -> str:
    """Return the script with the ports of this demo, with its small model, and with shorter commands.

    The general model may be missing, and takes seconds where the small one takes a tenth. README's `MODEL` is general.
    """
    host = {"127.0.0.1:8000": stoa.commerce_url, "127.0.0.1:8001": stoa.inference_url}
    for documented, url in host.items():
        script = script.replace(documented, url.removeprefix("http://"))
    for long, short in SHORTER.items():
        script = script.replace(long, short)
    return script.replace("SmolLM2-135M-Instruct", "stoa-describer")


def test_every_left_out_command_is_in_a_page():
    sections = all_sections()
    code = "\n".join(block.code for section in sections for block in section.blocks if block.language == "sh")
    assert [start for start in LEFT_OUT if not re.search(rf"^{re.escape(start)}", code, re.MULTILINE)] == []
    assert LEFT_OUT_PAGES.keys() <= {section.page for section in sections if section.blocks}
    assert all(long in code for long in SHORTER)


def test_readme_sets_the_variables_that_the_other_pages_use():
    code = "".join(block.code for block in PAGES["README.md"])
    assert {*re.findall(r"^(?:export )?([A-Z_]+)=", code, re.MULTILINE)} == {"PATH", "TOKEN", "API_KEY", "MODEL"}


def shape_of(value: Any) -> Any:
    """Return the keys of a JSON value at every level; of an array those of its first element."""
    if isinstance(value, dict):
        return {name: shape_of(below) for name, below in value.items()}
    return [shape_of(below) for below in value[:1]] if isinstance(value, list) else None


def differences(documented: Any, actual: Any, path: str = "") -> Iterator[str]:
    """Yield where the keys of two shapes differ. A null, an empty object and an empty array agree with everything."""
    if not documented or not actual:
        return
    if isinstance(documented, list):
        yield from differences(documented[0], actual[0], f"{path}[0]")
        return
    yield from (f"{path}.{name}" for name in documented.keys() ^ actual.keys())
    for name in documented.keys() & actual.keys():
        yield from differences(documented[name], actual[name], f"{path}.{name}")


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_work_in_one_shell(stoa: RunningStoa, reader: tuple[Path, dict[str, str]], page: str):
    home, environment = reader
    blocks = PAGES[page]
    script = PRELUDE + "".join(f"echo; echo '{MARK}{number}'\n{block.code}" for number, block in enumerate(blocks))
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", adapt_to(stoa, script)],
        cwd=home,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    assert not re.search(r'"error": ?[{"]', done.stdout), done.stdout
    assert page != "README.md" or all(text in done.stdout for text in PRINTED_BY_README), done.stdout
    outputs = [output.partition("\n")[2].strip() for output in done.stdout.split(f"\n{MARK}")[1:]]
    assert len(outputs) == len(blocks)
    for block, output in zip(blocks, outputs, strict=True):
        assert output or "print(" not in block.code
        if block.answer is not None:
            assert list(differences(shape_of(block.answer), shape_of(json.loads(output)))) == []
