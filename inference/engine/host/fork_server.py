"""Imported first in the fork server, and nowhere else: it ends with the host even while it still imports torch."""

import os
import signal

from inference.engine.host.model_process import die_with_parent

die_with_parent(signal.SIGKILL)
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group, also while this imports
if os.environ["MODEL_HOST_PID"] != str(os.getppid()):
    os._exit(0)  # the host ended before the line above
