"""The page from one machine to a cluster: its commands run as pasted, each machine in a namespace of its own.

`deploy/run bench cluster` runs the whole page. Here its first step and its pool run, with the model server alone.
"""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.benchmarks.system._machines import NamespacesUnavailable
from tests.deploy.programs import needs
from tests.machines.cluster_page import (
    ADDRESSES,
    CLIENT,
    ONE_MACHINE,
    POOL,
    Cluster,
    Command,
    commands,
    running_cluster,
)
from tests.migrated_database import migrated_file

pytestmark = [pytest.mark.timeout(900), pytest.mark.no_database]

PAGE = commands()
SHOP_UNITS = "stoa-commerce-web@8000 stoa-commerce-web@8010 stoa-commerce-worker"
DATABASE = Path("var/lib/stoa/front.sqlite3")


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Yield the first machine, with a migrated database and no shop, the third one, and a client with a key."""
    with ExitStack() as running:
        try:
            started = running.enter_context(running_cluster(tmp_path_factory.mktemp("cluster"), "first", "third"))
        except NamespacesUnavailable as error:
            pytest.skip(
                f"NOT RUN: the commands of docs/operator/cluster.md, as namespaces cannot be made here: {error}"
            )
        first = started.machines["first"]
        started.install_first(database_url=f"sqlite:////{DATABASE}")
        shutil.copy(migrated_file(), first.folder / DATABASE)
        first.run(f"""
            stoa_run inference createsuperuser --noinput --email admin@example.com --name Admin
            systemctl mask {SHOP_UNITS} stoa-inference-web@8011
        """)
        key = first.run("stoa_run inference keys create --user admin@example.com client 2> /dev/null").strip()
        started.connect_client(key)
        started.start_first()
        started.install("third")
        yield started


def is_about_the_shop(command: Command) -> bool:
    return "https://shop.example.com" in command.code


@needs("nginx", package="nginx-light")
@needs("redis-server", package="redis-server")
def test_the_commands_of_two_steps_work_and_a_client_notices_nothing(cluster: Cluster):
    client = [one for one in PAGE if one.step == ONE_MACHINE and one.machine == CLIENT and one.code]
    of_models = [one for one in client if not is_about_the_shop(one)]
    assert (len(client), len(of_models)) == (3, 2)
    for step in (ONE_MACHINE, POOL):
        for command in PAGE:
            if command.step == step and not is_about_the_shop(command):
                cluster.run(command, of_models)
    log = (cluster.machines["third"].folder / "var/log/units/stoa-inference-web@8001.service").read_text()
    assert "/v1/chat/completions" in log  # the member has answered


def test_the_page_names_the_machines_of_its_table():
    text = (Path(__file__).resolve().parents[2] / "docs" / "operator" / "cluster.md").read_text()
    assert {name: address for name, address in ADDRESSES.items() if f"| {name} | {address} |" in text} == {
        name: address for name, address in ADDRESSES.items() if name != CLIENT
    }
    assert {one.machine for one in PAGE} == ADDRESSES.keys()
    assert sorted({one.step for one in PAGE}) == [1, 2, 3, 4, 5]
