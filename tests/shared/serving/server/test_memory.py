"""Memory that a process returns to the system."""

import ctypes
import subprocess
import sys

import pytest

# Print by how many MiB the process has grown after eight idle threads have hashed a password.
HASHES = """
import threading
import django
import psutil
from argon2.low_level import Type, hash_secret
django.setup()
from shared.accounts.passwords import SingleCoreArgon2PasswordHasher
from shared.serving.server.memory import return_large_blocks

return_large_blocks()
memory = SingleCoreArgon2PasswordHasher.memory_cost
cost = dict(time_cost=1, memory_cost=memory, parallelism=1, hash_len=32, type=Type.ID)
before = psutil.Process().memory_info().rss
turn, over = threading.Lock(), threading.Barrier(9)

def sign_in():
    for _ in range(3):
        with turn:
            hash_secret(b"password", b"salt" * 4, **cost)
    over.wait()
    over.wait()

for _ in range(8):
    threading.Thread(target=sign_in).start()
over.wait()
print((psutil.Process().memory_info().rss - before) // 2**20)
over.wait()
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="of glibc alone")
def test_x6_threads_return_the_memory_of_password_hashing():
    run = subprocess.run([sys.executable, "-c", HASHES], capture_output=True, text=True, timeout=120, check=True)
    print(f"{run.stdout.strip()} MiB more")

    assert int(run.stdout) < 19
