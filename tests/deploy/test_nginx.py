"""The proxy in front: that nginx takes its configuration, and that it lets through what the projects let through."""

import re
import shutil
import subprocess
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
    assert NGINX is not None
    done = subprocess.run(
        [NGINX, "-t", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert re.findall(r"\[(warn|emerg|error)\].*", done.stderr) == []


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
