"""Start of the fork server: makes it end with the host, even while it imports torch. Imported nowhere else."""

import os
import signal

from inference.engine.host.model_process import die_with_parent

die_with_parent(signal.SIGKILL)
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group
if os.environ["MODEL_HOST_PID"] != str(os.getppid()):
    os._exit(0)  # the host ended before `die_with_parent` took effect
