"""Row N14: network faults between the model server and its clients, database, Redis, model host and another server."""

import asyncio
import os
import tempfile
from pathlib import Path

import pytest

from tests.network.clients import run_under_faults
from tests.network.relay import FaultyNetwork
from tests.network.servers import relayed_model_server, server_context

SEED, OPERATIONS, CLIENTS = 14, 80, 6


@pytest.mark.timeout(300)
def test_n14_network_faults_lose_and_repeat_nothing_of_the_model_server():
    with tempfile.TemporaryDirectory(prefix="stoa") as home, FaultyNetwork(SEED) as network:
        folder = Path(home)
        tls = server_context(folder)
        with relayed_model_server(network, folder, tls, redis_url=os.environ["REDIS_URL"]) as relayed:
            asyncio.run(run_under_faults(network, [relayed.operations], OPERATIONS, seed=SEED, clients=CLIENTS))

            assert relayed.differences() == []
            assert all(network.counts().values()), network.counts()
            assert relayed.operations.batches, relayed.operations.outcomes
