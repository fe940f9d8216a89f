"""What it costs to open pictures in a process of their own, and row U11: a hundred thousand mutated ones through it.

"Ours" checks the header and has the picture written again and made smaller by children; "theirs" does the same with
Pillow in its own process, without limits.
"""

import io
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable

import psutil

from commerce.attachments import pictures
from commerce.attachments.image_headers import BadImage, read_header
from commerce.attachments.picture_process import PictureProcess
from commerce.attachments.sizes import sizes_of
from tests.benchmarks._table import Comparison, arguments, publish
from tests.commerce.attachments.mutations import mutated, samples
from tests.commerce.attachments.samples import TYPES, image_file


def ours(process: PictureProcess, content: bytes, content_type: str) -> None:
    read_header(content, content_type)
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as target:
        source.write(content)
        source.flush()
        sizes = sizes_of(*process.rewrite(source, target, content_type))
        with tempfile.TemporaryFile() as small:
            process.make_sizes(target, [small], content_type, [(sizes[0].width, sizes[0].height)])


def theirs(content: bytes, content_type: str) -> None:
    written, width, height = pictures.rewrite(io.BytesIO(content), content_type)
    size = sizes_of(width, height)[0]
    pictures.make_sizes(io.BytesIO(written), content_type, [(size.width, size.height)])


def milliseconds(work: Callable[[], None], rounds: int) -> float:
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return 1000 * statistics.median(taken)


def compare(process: PictureProcess, name: str, side: int, rounds: int) -> Comparison:
    content, content_type = image_file(name, side, side), TYPES[name]
    mine = milliseconds(lambda: ours(process, content, content_type), rounds)
    other = milliseconds(lambda: theirs(content, content_type), rounds)
    return Comparison(f"{name} {side} x {side}", mine, other, "ms")


def try_mutations(process: PictureProcess, count: int) -> None:
    dice, outcomes, slowest = random.Random(7), Counter[str](), 0.0
    originals = samples()
    for number in range(count):
        content_type, content = originals[number % len(originals)]
        began = time.perf_counter()
        try:
            ours(process, mutated(content, dice), content_type)
            outcomes["taken"] += 1
        except BadImage:
            outcomes["refused"] += 1
        slowest = max(slowest, time.perf_counter() - began)
    memory = psutil.Process().memory_info().rss / 2**20
    print(
        f"{count} mutated images: {dict(outcomes)}, slowest {slowest:.2f} s, {memory:.0f} MiB here, 0 crashes of ours"
    )


def main() -> None:
    given = arguments(__doc__ or "")
    process = PictureProcess()
    try_mutations(process, 2_000 if given.quick else 100_000)
    rounds = 5 if given.quick else 25
    publish([compare(process, name, side, rounds) for name in TYPES for side in (400, 2000)], given.json)
    process.stop()


if __name__ == "__main__":
    main()
