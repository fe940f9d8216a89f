"""One model through the API, by Stoa's engine: two replicas, with one replica as the baseline.

The weights are random, of 125M parameters. Replicas gain where one process does not use all that the machine has:
several GPUs (`--gpu`), or more cores than its steps can use.
"""

import asyncio
import os
import tempfile
from pathlib import Path

import httpx2

from inference.engine import LoadOptions
from inference.engine.models.kernel_build import FOLDER_VARIABLE, build_kernels
from inference.engine.processors import gpu_devices, physical_cores
from tests.benchmarks._table import Comparison, arguments, publish
from tests.benchmarks.inference._engines import configurations, save_random
from tests.benchmarks.inference.engines import CHECKOUT, CONTEXT, COUNTS, CompletionsClient, Timing, measure
from tests.benchmarks.pools._pools import UNLIMITED
from tests.inference.running_server import RunningServer, running_server

MODEL = "model"
ALL_LAYERS = 1000


async def time_replicas(
    served: RunningServer, path: Path, options: LoadOptions, rounds: int, counts: tuple[int, ...]
) -> dict[int, Timing]:
    """Load the model with these options, and return the medians by number of streams."""
    report = await served.host.load(MODEL, path, options)
    print(
        f"{report.replicas} replicas: {report.memory_usage_bytes / 2**20:.0f} MiB, {report.load_time_ms / 1000:.1f} s"
    )
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(base_url=served.url, headers=served.headers(), timeout=600, limits=limits) as client:
        return await measure(CompletionsClient(client, MODEL), rounds, counts)


def main() -> None:
    given = arguments(__doc__ or "", {"--gpu": "on GPUs, with one for each replica where there are several"})
    os.environ.setdefault(FOLDER_VARIABLE, str(CHECKOUT / "var" / "compiled"))
    build_kernels()
    rounds, counts = (1, (1, 16)) if given.quick else (3, COUNTS)
    print(f"{physical_cores()} cores, {len(gpu_devices()) if given.gpu else 0} GPUs used")
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "models"
        path = save_random(folder / MODEL, configurations()["small"])
        timings = {}
        with running_server(Path(home), Path(home) / "run", folder, load=[], extra=UNLIMITED) as served:
            for replicas in (1, 2):
                options = LoadOptions(
                    replicas=replicas,
                    context_size=CONTEXT,
                    max_sequences=max(COUNTS),
                    gpu_layers=ALL_LAYERS if given.gpu else 0,
                )
                timings[replicas] = asyncio.run(time_replicas(served, path, options, rounds, counts))
    one, two = timings[1], timings[2]
    publish(
        [
            *(
                Comparison(f"{count} streams", two[count].tokens_per_second, one[count].tokens_per_second, "tokens/s")
                for count in counts
            ),
            *(
                Comparison(f"{count} streams, first token", two[count].first_token_ms, one[count].first_token_ms, "ms")
                for count in counts
            ),
        ],
        given.json,
    )


if __name__ == "__main__":
    main()
