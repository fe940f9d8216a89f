"""Row M7: the linter rejects calls that could run untrusted code, and the source has none."""

import ast
import subprocess
from pathlib import Path

import pytest
from ruff import find_ruff_bin

CHECKOUT = Path(__file__).resolve().parent.parent
SOURCES = [path for package in ("commerce", "inference", "shared") for path in (CHECKOUT / package).rglob("*.py")]

FORBIDDEN = [
    ("TID251", "import torch\n\ntorch.load('weights.bin')\n"),
    ("TID251", "import pickle\n\npickle.loads(b'')\n"),
    ("TID251", "import requests\n\nrequests.get('http://example.com', timeout=1)\n"),
    ("TID251", "import jinja2\n\njinja2.Environment(autoescape=True)\n"),
    ("S602", "import subprocess\n\nsubprocess.run('ls', shell=True)\n"),
    ("S307", "eval('1')\n"),
]


@pytest.mark.parametrize(("rule", "source"), FORBIDDEN)
def test_m7_the_linter_rejects_a_forbidden_call(rule: str, source: str):
    completed = subprocess.run(
        [
            find_ruff_bin(),
            "check",
            "--no-cache",
            "--output-format=concise",
            "--stdin-filename",
            "shared/example.py",
            "-",
        ],
        input=source,
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
    )
    assert completed.returncode == 1, completed.stderr
    assert f" {rule} " in completed.stdout


def test_m7_no_call_trusts_code_of_a_model_folder():
    trusting = [
        f"{path.relative_to(CHECKOUT)}:{keyword.value.lineno}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "trust_remote_code"
        and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
    ]
    assert len(SOURCES) > 50
    assert trusting == []
