"""Start of the fork server: it ends with the host, even while it imports torch. Imported nowhere else.

Every process that is forked from here on ends with the one that forked it, from its first instruction on: a model that
hangs before `run_model`, and the child in which a model tries its chat template.
"""

import os
import signal

from inference.engine.host.model_process import die_with_parent

_parent_pid = int(os.environ["MODEL_HOST_PID"])


def _note_parent() -> None:
    global _parent_pid
    _parent_pid = os.getpid()


def _end_with_parent() -> None:
    die_with_parent(signal.SIGKILL)
    if os.getppid() != _parent_pid:
        os._exit(0)  # the parent ended before `die_with_parent` took effect


_end_with_parent()
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; children inherit this
os.register_at_fork(before=_note_parent, after_in_child=_end_with_parent)
