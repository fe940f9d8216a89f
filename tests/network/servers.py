"""Servers whose every connection is relayed: a shop, a model server and S3, with a certificate that they trust."""

import contextlib
import ipaddress
import json
import sqlite3
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import psycopg
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from moto.server import ThreadedMotoServer

from tests.commerce.live_server import ServedShop, served_shop
from tests.inference.batches.workers import running_worker
from tests.inference.engine.processes import running_host
from tests.inference.running_server import TALKER_CONFIG, RunningServer, add_model, make_users, running_server
from tests.network.models import ModelOperations
from tests.network.relay import (
    FaultyNetwork,
    interpose_on_models,
    relayed_database,
    relayed_redis,
    tcp_address,
    url_of,
)
from tests.network.shop import PRODUCTS, SET_STOCK, Rows, ShopOperations, analytics_differences
from tests.once_per_run import once_per_run

BUCKET = "stoa"
ROLES = ("SUPER_ADMIN", "STORE_OWNER", "STAFF", "CUSTOMER")
KEYS = {"aws_access_key_id": "key", "aws_secret_access_key": "secret", "region_name": "us-east-1"}


@dataclass
class RelayedShop:
    """A shop behind relays. `rows` runs a query past them, `stored_files` lists the files in S3."""

    shop: ServedShop
    operations: ShopOperations
    rows: Rows
    stored_files: Callable[[], list[str]]

    def differences(self) -> list[str]:
        """Return what the clients saw that no fault explains, and what differs in the tables and analytics."""
        tables = self.operations.differences(self.rows, self.stored_files)
        return [*self.operations.violations, *tables, *analytics_differences(self.shop.environment)]


@dataclass
class RelayedModelServer:
    """A model server behind relays, with a worker. `rows` runs a query past them."""

    server: RunningServer
    operations: ModelOperations
    rows: Rows

    def differences(self) -> list[str]:
        """Return what the clients saw that no fault explains, what is stuck, and what differs in the tables."""
        stuck = self.operations.wait_until_finished(self.rows)
        return [*self.operations.violations, *stuck, *self.operations.differences(self.rows)]


def server_context(folder: Path) -> ssl.SSLContext:
    """Write a certificate of 127.0.0.1 and its key into the folder, and return the context of a server with it."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(2))
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = builder.add_extension(names, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    (folder / "certificate.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(*pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    return context


def trust_certificate(folder: Path) -> dict[str, str]:
    """Return the variables by which processes trust the certificate of `server_context`."""
    path = str(folder / "certificate.pem")
    return {"SSL_CERT_FILE": path, "AWS_CA_BUNDLE": path}


@contextlib.contextmanager
def served_s3(network: FaultyNetwork, tls: ssl.SSLContext) -> Iterator[tuple[dict[str, str], Callable[[], list[str]]]]:
    """Run an S3 server; yield the shop's settings for it behind a relay, and a function that lists the stored files."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        bucket = boto3.resource("s3", endpoint_url=f"http://{host}:{port}", **KEYS).create_bucket(Bucket=BUCKET)
        relay, _ = network.encrypted_link("S3", (host, port), tls)
        settings = {
            "STOA_STORAGE": "s3",
            "STOA_S3_BUCKET": BUCKET,
            "STOA_S3_ENDPOINT": url_of(relay, "https"),
            "STOA_S3_REGION": "us-east-1",
            "STOA_S3_ACCESS_KEY": "key",
            "STOA_S3_SECRET_KEY": "secret",
        }
        yield settings, lambda: [stored.key for stored in bucket.objects.all()]
    finally:
        server.stop()


@contextlib.contextmanager
def relayed_shop(
    network: FaultyNetwork,
    folder: Path,
    tls: ssl.SSLContext,
    *,
    models_url: str,
    database_url: str,
    redis_url: str,
    extra: dict[str, str] | None = None,
) -> Iterator[RelayedShop]:
    """Run a shop on an empty PostgreSQL database, or on a SQLite file of its own, with its files in S3.

    models_url: base URL of its model server, which it reaches over TLS. extra: further settings.
    """
    parts = urlsplit(models_url)
    models, _ = network.encrypted_link("shop to model server", tcp_address(f"http://{parts.netloc}"), tls)
    relayed = relayed_database(network, database_url, folder) if database_url else ""
    settings = trust_certificate(folder) | {"REDIS_URL": relayed_redis(network, redis_url, folder)}
    with (
        served_s3(network, tls) as (storage, stored_files),
        served_shop(
            provider_url=url_of(models, "https") + parts.path,
            database_url=relayed,
            extra=settings | storage | (extra or {}),
        ) as shop,
    ):
        past = partial(query, database_url or shop.environment["DATABASE_URL"])
        past(SET_STOCK)
        front = network.link("client to shop", tcp_address(shop.url))
        headers = {role: shop.headers(role) for role in ROLES}
        products = [row[0] for row in past(PRODUCTS)]
        yield RelayedShop(shop, ShopOperations(url_of(front), headers, products), past, stored_files)


@contextlib.contextmanager
def relayed_model_server(
    network: FaultyNetwork, folder: Path, tls: ssl.SSLContext, *, redis_url: str
) -> Iterator[RelayedModelServer]:
    """Run a model server on a database of its own, a host with the fake model `talker`, and a worker.

    As a remote server it uses itself, over TLS, by the model `far`.
    """
    urls: list[str] = []

    def relay(url: str) -> str:
        urls.append(url)
        return relayed_database(network, url, folder) if url.startswith("postgres") else url

    far, terminator = network.encrypted_link("model server to another", None, tls)
    key = json.loads(once_per_run(make_users)[1])["SUPER_ADMIN"]
    remote = {"id": "far", "model": "talker", "base_url": f"{url_of(far, 'https')}/v1", "api_key": key}
    settings = trust_certificate(folder) | {
        "REDIS_URL": relayed_redis(network, redis_url, folder),
        "STOA_REMOTE_MODELS": json.dumps([remote | {"dialect": "stoa"}]),
    }
    models_dir = folder / "models"
    add_model(models_dir, "talker", dict(TALKER_CONFIG))
    with (
        running_host() as host,
        running_server(folder, host.run_dir, models_dir, load=["talker"], extra=settings, relay=relay) as server,
    ):
        terminator.target = tcp_address(server.url)
        interpose_on_models(network, host.run_dir)
        front = network.link("client to model server", tcp_address(server.url))
        operations = ModelOperations(url_of(front), key, "talker", "far")
        operations.learn_texts()
        with running_worker(server):
            yield RelayedModelServer(server, operations, partial(query, urls[0]))


def query(url: str, statement: str) -> list[tuple[Any, ...]]:
    """Return the rows of a statement, committed, on a database by its URL."""
    if url.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)) as database, database:
            return list(database.execute(statement))
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []
