"""Start of the fork server: makes it end with the host, even while it imports torch. Imported nowhere else.

Its children end with it from their first instruction on: one that hangs in the fork never reaches `run_model`.
"""

import os
import signal

from inference.engine.host.model_process import die_with_parent

die_with_parent(signal.SIGKILL)
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group
if os.environ["MODEL_HOST_PID"] != str(os.getppid()):
    os._exit(0)  # the host ended before `die_with_parent` took effect

_FORK_SERVER_PID = os.getpid()
_process = {"is_model": False}


def _end_with_fork_server() -> None:
    if not _process["is_model"]:  # the handler runs in forks of a model process too
        _process["is_model"] = True
        die_with_parent(signal.SIGKILL)
        if os.getppid() != _FORK_SERVER_PID:
            os._exit(0)


os.register_at_fork(after_in_child=_end_with_fork_server)
