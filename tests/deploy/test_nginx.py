"""The nginx configuration: its syntax, its own errors, and its limits beside those of the projects."""

import contextlib
import http.client
import json
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.deploy.manifests import DEPLOY, read_settings
from tests.deploy.programs import needs

NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx") or "nginx"
needs_nginx = needs("nginx", package="nginx-light")
MIB = 1024 * 1024
CONFIGURATION = (DEPLOY / "nginx" / "stoa.conf").read_text()
MAIN = """
pid {folder}/nginx.pid;
error_log stderr;
events {{ }}
http {{
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/stoa.conf;
}}
"""


def certificate(folder: Path) -> None:
    """Write a self-signed certificate and its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "shop.example.com")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    folder.mkdir()
    (folder / "fullchain.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_format = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "privkey.pem").write_bytes(key.private_bytes(*key_format))


@needs_nginx
@pytest.mark.parametrize("upstreams", ["nginx/upstreams.conf", "compose/upstreams.conf"])
def test_nginx_accepts_the_configuration(tmp_path: Path, upstreams: str):
    install_configuration(tmp_path, upstreams)
    done = subprocess.run(
        [NGINX, "-t", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert re.findall(r"\[(warn|emerg|error)\].*", done.stderr) == []


def install_configuration(tmp_path: Path, upstreams: str) -> None:
    """Copy every file that nginx reads, as installed in /etc."""
    certificate(tmp_path / "tls")
    for source in [*(DEPLOY / "nginx").rglob("*.conf"), DEPLOY / upstreams]:
        target = tmp_path / source.relative_to(source.parents[1] if source.parent.name == "stoa" else source.parent)
        target.parent.mkdir(exist_ok=True)
        text = source.read_text().replace("/etc/stoa/tls", str(tmp_path / "tls"))
        text = text.replace("/etc/nginx/stoa-upstreams.conf", str(tmp_path / "upstreams.conf"))
        text = text.replace("/etc/nginx/stoa/", f"{tmp_path}/stoa/").replace("/var/log/nginx", str(tmp_path))
        # Only Docker resolves the names of containers, and Debian's nginx is too old for `resolve`.
        target.write_text(re.sub(r"server [\w-]+:(\d+) resolve", r"server 127.0.0.1:\1", text))
    (tmp_path / "nginx.conf").write_text(MAIN.format(folder=tmp_path))


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[int]:
    """Run nginx with upstreams that refuse connections; yield its port."""
    with running_proxy(tmp_path, *free_ports(1)) as port:
        yield port


@contextlib.contextmanager
def running_proxy(tmp_path: Path, upstream_port: int, max_connections: int = 1024) -> Iterator[int]:
    install_configuration(tmp_path, "nginx/upstreams.conf")
    port, http_port = free_ports(2)
    config = tmp_path / "stoa.conf"
    text = re.sub(r" +listen \[::\]:.*\n", "", config.read_text())
    text = text.replace("limit_conn stoa_connections 1024", f"limit_conn stoa_connections {max_connections}")
    config.write_text(
        text.replace("listen 443", f"listen 127.0.0.1:{port}").replace("listen 80 ", f"listen {http_port} ")
    )
    servers = tmp_path / "upstreams.conf"
    servers.write_text(re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{upstream_port}", servers.read_text()))
    command = [NGINX, "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"), "-g", "daemon off;"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        while True:
            with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
                break
            assert process.poll() is None
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(30)


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(one.getsockname()[1]) for one in sockets]


def request(port: int, host: str, head: str) -> tuple[int, dict[str, str], bytes]:
    """Send this request head; return the status, the headers and the body of the response."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname=host) as connection,
    ):
        connection.sendall(f"{head}Host: {host}\r\n\r\n".encode())
        response = http.client.HTTPResponse(connection)
        response.begin()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()


@needs_nginx
@pytest.mark.parametrize("host", ["shop.example.com", "models.example.com"])
def test_o5_an_error_of_nginx_is_json_with_the_logged_request_id(proxy: int, tmp_path: Path, host: str):
    heads = {
        "GET /v1/models HTTP/1.1\r\n": 503,
        f"POST /v1/embeddings HTTP/1.1\r\nContent-Length: {400 * MIB}\r\n": 413,
        f"GET / HTTP/1.1\r\nX-Long: {'x' * 20_000}\r\n": 400,
        f"GET /{'x' * 20_000} HTTP/1.1\r\n": 400,
        "GET / HTTP/1.1\r\nContent-Length: no\r\n": 400,
    }
    responses = [request(proxy, host, head) for head in heads]
    assert [status for status, _, _ in responses] == list(heads.values())
    assert {headers["content-type"] for _, headers, _ in responses} == {"application/json"}
    assert [name for _, headers, _ in responses for name in headers if name == "retry-after"] == ["retry-after"]
    ids = [json.loads(body)["request_id"] for _, _, body in responses]
    log = tmp_path / "access.log"
    deadline = time.monotonic() + 20
    while len(log.read_text().splitlines()) < len(ids) and time.monotonic() < deadline:
        time.sleep(0.05)  # nginx writes the line after it has sent the response
    assert ids == [json.loads(line)["request_id"] for line in log.read_text().splitlines()]


def test_n9_an_address_has_as_many_connections_as_the_projects_give_it():
    source = (DEPLOY.parent / "shared" / "serving" / "server" / "http_protocol.py").read_text()
    (limit,) = re.findall(r"^MAX_CONNECTIONS_PER_ADDRESS = (\d+)", source, re.MULTILINE)
    for server in ("shop.example.com", "models.example.com"):
        block = next(part for part in CONFIGURATION.split("\nserver {") if f"server_name {server};" in part)
        assert re.findall(r"limit_conn (\w+) (\d+);", block) == [("stoa_connections", limit)]


@needs_nginx
def test_n9_a_connection_past_the_limit_of_its_address_is_503(tmp_path: Path):
    with (
        socket.create_server(("127.0.0.1", 0)) as upstream,
        running_proxy(tmp_path, upstream.getsockname()[1], max_connections=1) as port,
        ThreadPoolExecutor(1) as executor,
    ):
        running = executor.submit(request, port, "shop.example.com", "GET /api/products HTTP/1.1\r\n")
        with upstream.accept()[0] as accepted:
            accepted.recv(65536)
            status, headers, body = request(port, "models.example.com", "GET /v1/models HTTP/1.1\r\n")
            accepted.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        assert (status, headers["retry-after"], next(iter(json.loads(body)))) == (503, "5", "error")
        assert running.result()[0] == 200
        upstream.close()


def body_limits(server: str) -> dict[str, int]:
    """Return the body limit of each location of a server in bytes; "/" stands for all others."""
    block = next(part for part in CONFIGURATION.split("\nserver {") if f"server_name {server};" in part)
    server_block, *locations = re.split(r"\n    location ", block)
    limits = {"/": size_in(server_block)}
    for location in locations:
        path = re.match(r"(?:= )?(\S+)", location)
        if path and "client_max_body_size" in location:
            limits[path[1]] = size_in(location)
    return limits


def size_in(text: str) -> int:
    match = re.search(r"client_max_body_size (\d+)m;", text)
    assert match
    return int(match[1]) * MIB


def test_body_limits_leave_the_413_of_the_shop_to_the_shop(tmp_path: Path):
    limits = read_settings("commerce", tmp_path, "MAX_BODY_BYTES", "MAX_UPLOAD_BYTES")
    expected = {"/": limits["MAX_BODY_BYTES"], "/api/attachments": limits["MAX_UPLOAD_BYTES"]}
    assert body_limits("shop.example.com") == {path: limit + MIB for path, limit in expected.items()}


def test_body_limits_leave_the_413_of_the_model_server_to_the_model_server(tmp_path: Path):
    limits = read_settings(
        "inference", tmp_path, *("MAX_BODY_BYTES", "MAX_UPLOAD_BYTES", "MAX_PART_BODY_BYTES", "MAX_BATCH_BYTES")
    )
    expected = {
        "/": limits["MAX_BODY_BYTES"],
        "/batch": limits["MAX_BATCH_BYTES"],
        "/v1/files": limits["MAX_UPLOAD_BYTES"],
        "/v1/uploads/": limits["MAX_PART_BODY_BYTES"],
    }
    assert body_limits("models.example.com") == {path: limit + MIB for path, limit in expected.items()}


def test_streams_are_not_buffered():
    models = CONFIGURATION.split("server_name models.example.com;")[1]
    assert "proxy_buffering off;" in models
    timeout = re.search(r"proxy_read_timeout (\d+)s;", models)
    assert timeout
    assert int(timeout[1]) > 600  # the largest `timeout` of a generation, which may send nothing before it
