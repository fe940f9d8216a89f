"""`deploy/run` is a program beside the projects: its modules are found as it finds them."""

import sys
from pathlib import Path

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
sys.path.insert(0, str(DEPLOY))
