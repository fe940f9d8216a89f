"""`stoa batch` as an operator uses it."""

import json
from pathlib import Path

import pytest

from tests.inference.batches.workers import running_worker, status
from tests.inference.served import ServedStoa, run_manage, run_verbs


def write_lines(path: Path, *requests: object) -> str:
    path.write_text("".join(json.dumps(request) + "\n" for request in requests))
    return str(path)


def test_a_file_of_requests_is_submitted_waited_for_and_read(stoa: ServedStoa, tmp_path: Path):
    file = write_lines(
        tmp_path / "a.jsonl", {"id": "a", "prompt": "speak"}, {"id": "b", "prompt": "x", "max_tokens": 1}
    )
    with running_worker(stoa):
        done = run_manage(
            stoa.environment, "batch", "submit", file, "--model", "talker", "--wait", "-o", "max_tokens=2"
        )
    batch_id = done.stdout.strip()
    told, results = run_verbs(stoa.environment, ["batch", "status", batch_id, "--json"], ["batch", "results", batch_id])

    assert done.returncode == 0, done.stderr
    assert done.stderr.strip().endswith("completed: 2 completed, 0 failed")
    assert json.loads(told.stdout)["status"] == "completed"
    lines = [json.loads(line) for line in results.stdout.splitlines()]
    assert [line["choices"][0]["text"] for line in lines] == ["w0 w1 ", "w0 "]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"id": "b", "prompt": "speak", "temperature": 9}, "line 4: temperature is wrong"),
        ({"id": "a", "prompt": "speak"}, "line 4: id is that of another"),
        ([], "line 4: The body must be a JSON object"),
        (None, "line 4 is no JSON"),
    ],
    ids=str,
)
def test_what_is_wrong_with_a_file_is_named_by_its_line(stoa: ServedStoa, tmp_path: Path, wrong: object, words: str):
    file = tmp_path / "a.jsonl"
    broken = "{" if wrong is None else json.dumps(wrong)
    text = f'\n{{"id": "a", "prompt": "speak"}}\r\n  \n{broken}\n{{"id": "c", "prompt": "speak"}}'
    file.write_text(text, encoding="utf-8-sig")  # with the mark that some editors begin with

    (done,) = run_verbs(stoa.environment, ["batch", "submit", str(file), "--model", "talker"])

    assert done.returncode == 2
    assert done.stderr.startswith(f"stoa: {words}")
    assert done.stdout == ""


def test_a_batch_is_cancelled_and_what_is_wrong_is_told(stoa: ServedStoa, tmp_path: Path):
    good = write_lines(tmp_path / "good.jsonl", {"id": "a", "prompt": "speak"})
    bad = write_lines(tmp_path / "bad.jsonl", {"id": "a", "prompt": "speak"}, {"id": "a", "prompt": "speak"})
    submitted, twice, nobody, nowhere = run_verbs(
        stoa.environment,
        ["batch", "submit", good, "--model", "talker"],
        ["batch", "submit", bad, "--model", "talker"],
        ["batch", "submit", good, "--model", "nobody"],
        ["batch", "cancel", "batch_0"],
    )
    batch_id = submitted.stdout.strip()
    (cancelled,) = run_verbs(stoa.environment, ["batch", "cancel", batch_id])

    assert "line 2: id is that of another" in twice.stderr
    assert [twice.returncode, nobody.returncode, nowhere.returncode] == [2, 4, 4]
    assert cancelled.stderr.strip() == f"{batch_id}: cancelled, 0 of 1 done"
    assert status(stoa, batch_id)["status"] == "cancelled"
