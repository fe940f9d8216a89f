"""The proxy in front: that nginx takes its configuration, and that it lets through what the projects let through."""

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
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.deploy.manifests import DEPLOY, settings_of

NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
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
    """One that nobody has signed, with its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "shop.example.com")])
    made = (
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
    (folder / "fullchain.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "privkey.pem").write_bytes(key.private_bytes(*plain))


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed here")
@pytest.mark.parametrize("upstreams", ["nginx/upstreams.conf", "compose/upstreams.conf"])
def test_nginx_finds_nothing_wrong(tmp_path: Path, upstreams: str):
    place(tmp_path, upstreams)
    assert NGINX is not None
    done = subprocess.run(
        [NGINX, "-t", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert re.findall(r"\[(warn|emerg|error)\].*", done.stderr) == []


def place(tmp_path: Path, upstreams: str) -> None:
    """All that nginx reads, as in /etc."""
    certificate(tmp_path / "tls")
    for source in [*(DEPLOY / "nginx").rglob("*.conf"), DEPLOY / upstreams]:
        target = tmp_path / source.relative_to(source.parents[1] if source.parent.name == "stoa" else source.parent)
        target.parent.mkdir(exist_ok=True)
        text = source.read_text().replace("/etc/stoa/tls", str(tmp_path / "tls"))
        text = text.replace("/etc/nginx/stoa-upstreams.conf", str(tmp_path / "upstreams.conf"))
        text = text.replace("/etc/nginx/stoa/", f"{tmp_path}/stoa/").replace("/var/log/nginx", str(tmp_path))
        # The names of containers are known to Docker alone, and asking it again is for newer ones than Debian's.
        target.write_text(re.sub(r"server [\w-]+:(\d+) resolve", r"server 127.0.0.1:\1", text))
    (tmp_path / "nginx.conf").write_text(MAIN.format(folder=tmp_path))


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[int]:
    """The port of an nginx behind which nobody answers."""
    place(tmp_path, "nginx/upstreams.conf")
    port, other, nobody = free_ports(3)
    config = tmp_path / "stoa.conf"
    text = re.sub(r" +listen \[::\]:.*\n", "", config.read_text())
    config.write_text(text.replace("listen 443", f"listen 127.0.0.1:{port}").replace("listen 80 ", f"listen {other} "))
    servers = tmp_path / "upstreams.conf"
    servers.write_text(re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{nobody}", servers.read_text()))
    command = [str(NGINX), "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"), "-g", "daemon off;"]
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


def answer_of(port: int, host: str, head: str) -> tuple[int, dict[str, str], bytes]:
    """What nginx answers to this head."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname=host) as peer,
    ):
        peer.sendall(f"{head}Host: {host}\r\n\r\n".encode())
        answer = http.client.HTTPResponse(peer)
        answer.begin()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed here")
@pytest.mark.parametrize("host", ["shop.example.com", "models.example.com"])
def test_o5_what_nginx_itself_refuses_is_json_whose_request_id_is_in_its_log(proxy: int, tmp_path: Path, host: str):
    heads = {
        "GET /v1/models HTTP/1.1\r\n": 503,
        f"POST /v1/embeddings HTTP/1.1\r\nContent-Length: {400 * MIB}\r\n": 413,
        f"GET / HTTP/1.1\r\nX-Long: {'x' * 20_000}\r\n": 400,
        f"GET /{'x' * 20_000} HTTP/1.1\r\n": 400,
        "GET / HTTP/1.1\r\nContent-Length: no\r\n": 400,
    }
    told = [answer_of(proxy, host, head) for head in heads]
    assert [status for status, _, _ in told] == list(heads.values())
    assert {headers["content-type"] for _, headers, _ in told} == {"application/json"}
    assert [name for _, headers, _ in told for name in headers if name == "retry-after"] == ["retry-after"]
    ids = [json.loads(body)["request_id"] for _, _, body in told]
    lines = [json.loads(line) for line in (tmp_path / "access.log").read_text().splitlines()]
    assert ids == [line["request_id"] for line in lines]


def body_limits(server: str) -> dict[str, int]:
    """The largest body of each location of a server, in bytes; of all others under "/"."""
    block = next(part for part in CONFIGURATION.split("\nserver {") if f"server_name {server};" in part)
    whole, *locations = re.split(r"\n    location ", block)
    limits = {"/": size_in(whole)}
    for location in locations:
        path = re.match(r"(?:= )?(\S+)", location)
        if path and "client_max_body_size" in location:
            limits[path[1]] = size_in(location)
    return limits


def size_in(text: str) -> int:
    found = re.search(r"client_max_body_size (\d+)m;", text)
    assert found
    return int(found[1]) * MIB


def test_the_shop_refuses_what_is_too_large_itself(tmp_path: Path):
    caps = settings_of("commerce", tmp_path, "MAX_BODY_BYTES", "MAX_UPLOAD_BYTES")
    expected = {"/": caps["MAX_BODY_BYTES"], "/api/attachments": caps["MAX_UPLOAD_BYTES"]}
    assert body_limits("shop.example.com") == {path: cap + MIB for path, cap in expected.items()}


def test_the_model_server_refuses_what_is_too_large_itself(tmp_path: Path):
    caps = settings_of("inference", tmp_path, "MAX_BODY_BYTES", "MAX_UPLOAD_BYTES", "MAX_BATCH_BYTES")
    expected = {"/": caps["MAX_BODY_BYTES"], "/batch": caps["MAX_BATCH_BYTES"], "/v1/files": caps["MAX_UPLOAD_BYTES"]}
    assert body_limits("models.example.com") == {path: cap + MIB for path, cap in expected.items()}


def test_streams_are_not_held_back():
    models = CONFIGURATION.split("server_name models.example.com;")[1]
    assert "proxy_buffering off;" in models
    timeout = re.search(r"proxy_read_timeout (\d+)s;", models)
    assert timeout
    assert int(timeout[1]) > 600  # a generation's longest `timeout`, before which it may say nothing
