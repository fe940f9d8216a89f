"""Row X7: fuzzing of every parser of untrusted bytes with atheris, ten minutes each (--minutes).

A crash is printed with its input. It needs atheris: `pip install atheris`, for CPython 3.11 on Linux.
"""

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
SETTINGS = {"DJANGO_SETTINGS_MODULE": "inference.config.settings.test"}
TARGETS = (
    "a body in JSON",
    "a frame of the WebSocket",
    "a batch",
    "an address of a webhook",
    "a safetensors header",
    "a GGUF header",
    "server-sent events",
)
RUNS, REACHED = re.compile(r"Done (\d+) runs"), re.compile(r"cov: (\d+)")


def fuzz(name: str, seconds: float) -> dict[str, object]:
    """Return the number of runs, the covered code locations and the crashing inputs."""
    with tempfile.TemporaryDirectory(prefix="stoa-fuzz-") as folder:
        options = [f"-max_total_time={seconds:.0f}", "-rss_limit_mb=1024", "-timeout=10", "-max_len=4096"]
        command = [sys.executable, "-m", "tests.benchmarks.system._fuzz_target", name, folder, *options]
        environment = os.environ | SETTINGS | {"STOA_HOME": folder}
        done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True)
        runs, reached = RUNS.search(done.stderr), REACHED.findall(done.stderr)
        found = [file.read_bytes() for file in Path(folder).iterdir() if file.name.startswith(("crash-", "timeout-"))]
        if done.returncode and not found:
            sys.exit(done.stderr[-3000:])
    return {
        "name": name,
        "value": int(runs[1]) if runs else 0,
        "reached": int(reached[-1]) if reached else 0,
        "crashes": [repr(data) for data in found],
        "said": done.stderr[-2000:] if found else "",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="minutes for each parser; default: 10")
    parser.add_argument("--quick", action="store_true", help="ten seconds each")
    parser.add_argument("--json", type=Path, help="also write the table to this file")
    chosen = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        sys.exit("Not run: atheris is not installed. pip install atheris, for CPython 3.11 on Linux.")
    rows = []
    print("| parser | runs | covered locations | crashes |\n|---|---|---|---|", flush=True)
    for name in TARGETS:
        row = fuzz(name, 10.0 if chosen.quick else chosen.minutes * 60)
        rows.append(row)
        crashes = row["crashes"]
        assert isinstance(crashes, list)
        print(f"| {name} | {row['value']} | {row['reached']} | {len(crashes)} |", flush=True)
        for data in crashes:
            print(f"{data}\n{row['said']}", flush=True)
    if chosen.json:
        chosen.json.write_text(json.dumps({"ratios": rows}, indent=2))
    if any(row["crashes"] for row in rows):
        sys.exit("Row X7 failed.")


if __name__ == "__main__":
    main()
