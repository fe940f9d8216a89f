"""The command `stoa batch`."""

import json
from pathlib import Path

import pytest

from tests.inference.batches.workers import get_status, running_worker
from tests.inference.running_server import RunningServer, run_commands, run_manage

pytestmark = pytest.mark.no_database


def write_lines(path: Path, *requests: object) -> str:
    path.write_text("".join(json.dumps(request) + "\n" for request in requests))
    return str(path)


def test_a_file_is_submitted_and_its_results_are_read(stoa: RunningServer, tmp_path: Path):
    file = write_lines(
        tmp_path / "a.jsonl", {"id": "a", "prompt": "speak"}, {"id": "b", "prompt": "x", "max_tokens": 1}
    )
    with running_worker(stoa):
        done = run_manage(
            stoa.environment, "batch", "submit", file, "--model", "talker", "--wait", "-o", "max_tokens=2"
        )
    batch_id = done.stdout.strip()
    status, results = run_commands(
        stoa.environment, ["batch", "status", batch_id, "--json"], ["batch", "results", batch_id]
    )

    assert done.returncode == 0, done.stderr
    assert done.stderr.strip().endswith("completed: 2 completed, 0 failed")
    assert json.loads(status.stdout)["status"] == "completed"
    lines = [json.loads(line) for line in results.stdout.splitlines()]
    assert [line["choices"][0]["text"] for line in lines] == ["w0 w1 ", "w0 "]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            {"id": "b", "prompt": "speak", "temperature": 9},
            "line 4: `temperature` must be a number from 0 to 2, not 9.",
        ),
        ({"id": "a", "prompt": "speak"}, "line 4: `id` must be unique"),
        ([], "line 4: The body must be a JSON object"),
        (None, "line 4 is not JSON"),
    ],
    ids=str,
)
def test_an_invalid_file_is_refused_with_the_line_number(
    stoa: RunningServer, tmp_path: Path, wrong: object, words: str
):
    file = tmp_path / "a.jsonl"
    broken = "{" if wrong is None else json.dumps(wrong)
    text = f'\n{{"id": "a", "prompt": "speak"}}\r\n  \n{broken}\n{{"id": "c", "prompt": "speak"}}'
    file.write_text(text, encoding="utf-8-sig")  # with a byte order mark, as some editors write it

    (done,) = run_commands(stoa.environment, ["batch", "submit", str(file), "--model", "talker"])

    assert done.returncode == 2
    assert done.stderr.startswith(f"stoa: {words}")
    assert done.stdout == ""


def test_a_batch_is_cancelled_and_errors_have_their_exit_codes(stoa: RunningServer, tmp_path: Path):
    good = write_lines(tmp_path / "good.jsonl", {"id": "a", "prompt": "speak"})
    bad = write_lines(tmp_path / "bad.jsonl", {"id": "a", "prompt": "speak"}, {"id": "a", "prompt": "speak"})
    submitted, twice, nobody, nowhere = run_commands(
        stoa.environment,
        ["batch", "submit", good, "--model", "talker"],
        ["batch", "submit", bad, "--model", "talker"],
        ["batch", "submit", good, "--model", "nobody"],
        ["batch", "cancel", "batch_0"],
    )
    batch_id = submitted.stdout.strip()
    (cancelled,) = run_commands(stoa.environment, ["batch", "cancel", batch_id])

    assert "line 2: `id` must be unique" in twice.stderr
    assert [twice.returncode, nobody.returncode, nowhere.returncode] == [2, 4, 4]
    assert cancelled.stderr.strip() == f"{batch_id}: cancelled, 0 of 1 completed"
    assert get_status(stoa, batch_id)["status"] == "cancelled"
