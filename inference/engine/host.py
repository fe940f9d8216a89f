"""The command line of the model host: `python -m inference.engine.host --run-dir DIR`, and what else `--help` says."""

import argparse
import logging
import signal
from pathlib import Path

from inference.engine.compile import build_in_background
from inference.engine.model_host import run_host
from inference.engine.process import die_with_parent


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m inference.engine.host", description="Starts, watches and ends models."
    )
    parser.add_argument("--run-dir", type=Path, required=True, help="the folder of its sockets")
    parser.add_argument(
        "--compiled-dir", type=Path, help="where kernels compiled for this machine are kept; else none are compiled"
    )
    parser.add_argument(
        "--die-with-parent", action="store_true", help="end when the process that started this one ends"
    )
    arguments = parser.parse_args()
    if arguments.die_with_parent:
        die_with_parent(signal.SIGTERM)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    if arguments.compiled_dir:
        build_in_background(arguments.compiled_dir)
    run_host(arguments.run_dir)


if __name__ == "__main__":
    main()
