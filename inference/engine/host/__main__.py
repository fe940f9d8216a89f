"""The command line of the model host: `python -m inference.engine.host --run-dir DIR`."""

import argparse
import logging
import os
import signal
from pathlib import Path

from inference.engine.external import ENGINES_VARIABLE
from inference.engine.host.logs import start_logging
from inference.engine.host.model_process import die_with_parent
from inference.engine.host.options import HostOptions
from inference.engine.host.runner import run_host
from inference.engine.models import build_in_background


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m inference.engine.host", description="Load, supervise and unload models."
    )
    parser.add_argument("--run-dir", type=Path, required=True, help="folder of the sockets")
    parser.add_argument(
        "--compiled-dir", type=Path, help="folder of kernels compiled for this machine; without it none are compiled"
    )
    parser.add_argument("--engines-dir", type=Path, default=Path("var/engines"), help="folder of other engines")
    parser.add_argument(
        "--die-with-parent",
        type=int,
        nargs="?",
        const=0,
        metavar="PID",
        help="end when the process that started this one ends; PID: its id, in case it has ended already",
    )
    parser.add_argument("--memory-budget", type=int, help="maximum bytes of weights and caches of all models")
    parser.add_argument("--max-loaded", type=int, help="maximum number of loaded models")
    parser.add_argument("--evict", action="store_true", help="unload idle models to free memory for others")
    parser.add_argument("--autoload", action="store_true", help="a request for a model that is not loaded loads it")
    parser.add_argument("--idle-unload", type=float, help="seconds after which an unused model is unloaded")
    arguments = parser.parse_args()
    if arguments.die_with_parent is not None:
        die_with_parent(signal.SIGTERM)
        if arguments.die_with_parent not in (0, os.getppid()):
            return
    start_logging(logging.INFO)
    os.environ[ENGINES_VARIABLE] = str(arguments.engines_dir)
    if arguments.compiled_dir:
        build_in_background(arguments.compiled_dir)
    policy = HostOptions(
        memory_budget=arguments.memory_budget,
        max_loaded=arguments.max_loaded,
        evict=arguments.evict,
        autoload=arguments.autoload,
        idle_unload=arguments.idle_unload,
    )
    run_host(arguments.run_dir, policy=policy)


if __name__ == "__main__":
    main()
