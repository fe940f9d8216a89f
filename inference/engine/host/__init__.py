"""Host: one process per machine that loads models into processes of their own, supervises and unloads them.

`run_host` runs it; `python -m inference.engine.host` is its command line. Only `loading`, which the model processes
import, imports torch.
"""

from inference.engine.host.options import HostOptions
from inference.engine.host.runner import run_host

__all__ = ["HostOptions", "run_host"]
