"""The command line of the model host: `python -m inference.engine.host --run-dir DIR [--die-with-parent]`."""

import argparse
import logging
import signal
from pathlib import Path

from inference.engine.model_host import run_host
from inference.engine.process import die_with_parent


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m inference.engine.host", description="Starts, watches and ends models."
    )
    parser.add_argument("--run-dir", type=Path, required=True, help="the folder of its sockets")
    parser.add_argument(
        "--die-with-parent", action="store_true", help="end when the process that started this one ends"
    )
    arguments = parser.parse_args()
    if arguments.die_with_parent:
        die_with_parent(signal.SIGTERM)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    run_host(arguments.run_dir)


if __name__ == "__main__":
    main()
