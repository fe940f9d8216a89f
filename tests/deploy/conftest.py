"""Import path of the tests: the modules of `deploy/run` are imported as it imports them."""

import sys
from pathlib import Path

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
sys.path.insert(0, str(DEPLOY))
