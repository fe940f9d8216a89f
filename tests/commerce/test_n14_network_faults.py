"""Row N14: network faults between the shop and its clients, database, Redis, S3 and model server."""

import asyncio
import os
import tempfile
from pathlib import Path

import pytest

from tests.commerce.descriptions.provider.fake_server import ProviderServer
from tests.network.clients import run_under_faults
from tests.network.relay import FaultyNetwork
from tests.network.servers import relayed_shop, server_context

SEED, OPERATIONS, CLIENTS = 14, 80, 6


@pytest.mark.timeout(300)
def test_n14_network_faults_lose_and_repeat_nothing_of_the_shop(
    provider_server: ProviderServer, empty_database_url: str
):
    with tempfile.TemporaryDirectory(prefix="stoa") as home, FaultyNetwork(SEED) as network:
        folder = Path(home)
        tls, models_url = server_context(folder), provider_server.url("selected")
        servers = {"models_url": models_url, "database_url": empty_database_url, "redis_url": os.environ["REDIS_URL"]}
        with relayed_shop(network, folder, tls, **servers) as relayed:
            asyncio.run(run_under_faults(network, [relayed.operations], OPERATIONS, seed=SEED, clients=CLIENTS))

            assert relayed.differences() == []
            assert all(network.counts().values()), network.counts()
            assert relayed.operations.known.orders, relayed.operations.outcomes
