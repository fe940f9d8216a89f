"""A pool of 16 members behind the API, with 64 streams, while one member is killed every ten seconds.

The members are processes on this machine: fakes that keep a prefix cache, report `cached_tokens`, and take time for
what is not in it. The table has the time of the first token and the share of cached prefixes (each turn of a
conversation begins with the turn before) while members are killed, beside undisturbed minutes of the same run.
"""

import argparse
import asyncio
from pathlib import Path

from tests.benchmarks._table import Comparison, publish
from tests.benchmarks.pools._pools import MemberProcess, measure, running_pool

MEMBER_COUNT, STREAM_COUNT, TOKEN_COUNT = 16, 64, 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="30 seconds")
    parser.add_argument(
        "--seconds", type=float, default=300, help="seconds with kills; half as many without come between them"
    )
    parser.add_argument("--json", type=Path, help="also write the table to this file")
    given = parser.parse_args()
    seconds = 30.0 if given.quick else given.seconds
    members = [MemberProcess(f"fake-{number}") for number in range(MEMBER_COUNT)]
    with running_pool(members) as server:
        calm, killed, kills, errors = asyncio.run(
            measure(server, members, streams=STREAM_COUNT, tokens=TOKEN_COUNT, seconds=seconds)
        )
    print(f"{MEMBER_COUNT} members (fakes), {STREAM_COUNT} streams, {kills} kills in {seconds:.0f} s")
    for name, summary in (("undisturbed", calm), ("with kills", killed)):
        print(
            f"{name}: {summary.turns} requests, {summary.lost} lost before the first token, {summary.cut} cut after it"
        )
    print("\n".join(sorted(set(errors))))
    publish(
        [
            Comparison("first token, p50", killed.first_ms[50], calm.first_ms[50], "ms"),
            Comparison("first token, p99", killed.first_ms[99], calm.first_ms[99], "ms"),
            Comparison("cached share of prefixes", killed.cached_share, calm.cached_share, ""),
        ],
        given.json,
    )


if __name__ == "__main__":
    main()
