"""Images processed in a separate process beside in-process, and row U11: a hundred thousand mutated images.

In the measured side, child processes rewrite and scale the image. The baseline does the same with Pillow in this
process, without limits of time and memory.
"""

import io
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psutil

from commerce.attachments.images import processing
from commerce.attachments.images.limits import InvalidImage
from commerce.attachments.images.sizes import all_sizes
from commerce.attachments.images.worker_client import MAX_CONCURRENT_JOBS, ImageWorker
from tests.benchmarks._table import Comparison, arguments, publish
from tests.commerce.attachments.images.mutations import mutated, samples
from tests.commerce.attachments.samples import TYPES, image_file

CHUNK_SIZE = 1000


def in_worker(process: ImageWorker, content: bytes, content_type: str) -> None:
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as target:
        source.write(content)
        source.flush()
        sizes = all_sizes(*process.rewrite(source, target, content_type))
        with tempfile.TemporaryFile() as small:
            process.make_sizes(target, [small], content_type, [(sizes[0].width, sizes[0].height, "webp")])


def in_process(content: bytes, content_type: str) -> None:
    written, width, height = processing.rewrite(io.BytesIO(content), content_type)
    size = all_sizes(width, height)[0]
    processing.make_sizes(io.BytesIO(written), content_type, [(size.width, size.height, "webp")])


def milliseconds(work: Callable[[], None], rounds: int) -> float:
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return 1000 * statistics.median(taken)


def compare(process: ImageWorker, name: str, side: int, rounds: int) -> Comparison:
    content, content_type = image_file(name, side, side), TYPES[name]
    measured = milliseconds(lambda: in_worker(process, content, content_type), rounds)
    baseline = milliseconds(lambda: in_process(content, content_type), rounds)
    return Comparison(f"{name} {side} x {side}", measured, baseline, "ms")


def try_one(process: ImageWorker, content_type: str, content: bytes) -> tuple[str, float]:
    """Return the outcome and its seconds."""
    began = time.perf_counter()
    try:
        in_worker(process, content, content_type)
    except InvalidImage:
        return "rejected", time.perf_counter() - began
    return "accepted", time.perf_counter() - began


def try_mutations(process: ImageWorker, count: int) -> None:
    """Process mutated images, as many concurrently as the shop does."""
    dice, outcomes, slowest, originals = random.Random(7), Counter[str](), 0.0, samples()
    began = time.perf_counter()
    with ThreadPoolExecutor(MAX_CONCURRENT_JOBS) as pool:
        for first in range(0, count, CHUNK_SIZE):
            some = [originals[number % len(originals)] for number in range(first, min(count, first + CHUNK_SIZE))]
            drawn = [(content_type, mutated(content, dice)) for content_type, content in some]
            for outcome, seconds in pool.map(lambda image: try_one(process, *image), drawn):
                outcomes[outcome] += 1
                slowest = max(slowest, seconds)
    minutes, memory = (time.perf_counter() - began) / 60, psutil.Process().memory_info().rss / 2**20
    print(f"{count} mutated images in {minutes:.1f} min: {dict(outcomes)}, slowest {slowest:.2f} s")
    print(f"0 crashes of in_worker, {memory:.0f} MiB here")


def main() -> None:
    given = arguments(__doc__ or "")
    process = ImageWorker()
    try_mutations(process, 2_000 if given.quick else 100_000)
    rounds = 5 if given.quick else 25
    publish([compare(process, name, side, rounds) for name in TYPES for side in (400, 2000)], given.json)
    process.stop()


if __name__ == "__main__":
    main()
