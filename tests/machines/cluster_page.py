"""Runs the commands of docs/operator/cluster.md, each on the simulated machine that the page names before it."""

import contextlib
import re
import secrets
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.docs.commands import FENCE, sections
from tests.docs.pages import CHECKOUT
from tests.machines.machines import Machine, connected_machines
from tests.postgresql import find_binaries

PAGE = CHECKOUT / "docs" / "operator" / "cluster.md"
MACHINE = re.compile(r"\b[Oo]n (?:the (?P<ordinal>first|second|third|fourth) machine|a (?P<client>client))\b")
ADDRESSES = {
    "first": "10.77.0.11",
    "second": "10.77.0.12",
    "third": "10.77.0.13",
    "fourth": "10.77.0.14",
    "client": "10.77.0.21",
}
CLIENT = "client"
AGAIN = "Run the client's commands"
SHOP, MODELS = "shop.example.com", "models.example.com"
TLS = Path("etc/stoa/tls")
POSTGRESQL = """[Service]
User=postgres
ExecStart={binaries}/postgres -D /var/lib/postgresql/data -k /run/postgresql -c fsync=off
KillSignal=SIGINT
"""
REDIS = """[Service]
ExecStart=/usr/bin/env redis-server /etc/redis/redis.conf
"""
PGBOUNCER = """[Service]
User=postgres
ExecStart=/usr/bin/env pgbouncer /etc/pgbouncer/pgbouncer.ini
"""
NGINX_CONF = """daemon off;
user root;
pid /run/nginx.pid;
events {}
http { include /etc/nginx/conf.d/*.conf; }
"""
NGINX = """[Service]
ExecStart=/usr/bin/env nginx
"""
# What the answers to the client's commands have, by what the commands have.
EXPECTED = {
    "/v1/chat/completions": '"content":"',
    "/api/products": '"name":"',
    "/batch": '"kettle"',
}
# A step's section of the page, by its number.
ONE_MACHINE, TWO_MACHINES, POOL, REPLICA, PGBOUNCER_STEP = range(1, 6)


@dataclass(frozen=True)
class Command:
    """A code block of the page and its machine. Without code, the client runs its commands of the first step."""

    step: int
    machine: str
    code: str = ""


def commands() -> list[Command]:
    """Return the shell blocks of the page, in its order, and the client's commands at the end of each step."""
    found: list[Command] = []
    for section in sections(PAGE):
        step, end = int(section.title.split(".")[0]) if section.title[:1].isdigit() else 0, 0
        for block in FENCE.finditer(section.text):
            named = list(MACHINE.finditer(section.text[: block.start()]))
            assert block["language"] == "sh"
            assert named, f"The page does not say on which machine to run {block['code']}"
            if AGAIN in section.text[end : block.start()]:
                found.append(Command(step, CLIENT))
            found.append(Command(step, named[-1]["ordinal"] or CLIENT, block["code"]))
            end = block.end()
        if found and found[-1].step == step:
            found.append(Command(step, CLIENT))
    return found


def stoa_run() -> tuple[str, str]:
    """Return the install page's function, and the commands that follow it there."""
    blocks = (block for section in sections(CHECKOUT / "docs" / "operator" / "install.md") for block in section.blocks)
    code = next(block.code for block in blocks if "stoa_run()" in block.code)
    function, end, following = code.partition('"${@:2}"; }\n')
    return function + end, following


def certificate(folder: Path) -> None:
    """Write a certificate for both host names, which signs itself, and its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, SHOP)])
    names = x509.SubjectAlternativeName([x509.DNSName(SHOP), x509.DNSName(MODELS)])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).add_extension(names, critical=False)
    builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
    signed = builder.not_valid_before(now).not_valid_after(now + timedelta(days=1)).sign(key, hashes.SHA256())
    folder.mkdir(parents=True)
    (folder / "fullchain.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    key_format = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "privkey.pem").write_bytes(key.private_bytes(*key_format))


class Cluster:
    """The machines of the page, with what its steps presume: programs, and the first machine as installed."""

    def __init__(self, machines: dict[str, Machine]) -> None:
        self.machines = machines

    def run(self, command: Command, client_commands: Sequence[Command]) -> None:
        """Run a block of the page. Raise AssertionError if a command fails, or if the client's answers are wrong."""
        try:
            self._run(command, client_commands)
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), *(one.logs() for one in self.machines.values())])) from None

    def _run(self, command: Command, client_commands: Sequence[Command]) -> None:
        if command.code:
            self.machines[command.machine].run(command.code)
            return
        printed = "".join(self.machines[CLIENT].run(one.code) for one in client_commands)
        compact = re.sub(r'":\s+', '":', printed)
        expected = {text for one in client_commands for sent, text in EXPECTED.items() if sent in one.code}
        assert [text for text in expected if text not in compact] == [], printed

    def install(self, name: str) -> None:
        """Put units and the function of the install page on a machine, which shares compiled kernels with the tests.

        All machines have the same /usr, so the units are in another folder whose units can be masked.
        """
        machine = self.machines[name]
        compiled = CHECKOUT / "var" / "compiled"
        compiled.mkdir(mode=0o700, parents=True, exist_ok=True)
        machine.run(f"""
            install -d -m 0755 /etc/stoa
            install -d -m 0700 /var/lib/stoa
            install -D -m 0644 -t /run/systemd/system deploy/systemd/*.service deploy/systemd/*.target
            mkdir /var/lib/stoa/compiled
            mount --bind {compiled} /var/lib/stoa/compiled
        """)
        machine.run(stoa_run()[0])

    def install_first(self, *, database_url: str) -> None:
        """Install nginx and Redis, and write the settings."""
        first = self.machines["first"]
        self.install("first")
        certificate(first.folder / TLS)
        first.run(f"""
            cat > /etc/nginx/nginx.conf <<'EOF'
{NGINX_CONF}EOF
            rm -rf /etc/nginx/conf.d /etc/nginx/sites-enabled
            mkdir /etc/nginx/conf.d
            cp deploy/nginx/stoa.conf /etc/nginx/conf.d/
            cp deploy/nginx/upstreams.conf /etc/nginx/stoa-upstreams.conf
            cp -r deploy/nginx/stoa /etc/nginx/stoa
            install -d /var/lib/redis /var/log/redis /etc/redis
            printf 'bind 127.0.0.1\\nport 6379\\ndir /var/lib/redis\\nsave ""\\n' > /etc/redis/redis.conf
            cat > /etc/systemd/system/nginx.service <<'EOF'
{NGINX}EOF
            cat > /etc/systemd/system/redis-server.service <<'EOF'
{REDIS}EOF
            cat > /etc/systemd/system/pgbouncer.service <<'EOF'
{PGBOUNCER}EOF
            systemctl start redis-server
            systemctl start nginx
        """)
        values = {
            "SECRET_KEY": secrets.token_urlsafe(48),
            "STOA_JWT_KEY": secrets.token_urlsafe(48),
            "DATABASE_URL": database_url,
            "REDIS_URL": "redis://127.0.0.1:6379/0",
            "STOA_ALLOWED_HOSTS": f"{SHOP},{MODELS},127.0.0.1",
            "STOA_EMAIL_URL": "smtp://127.0.0.1:9",
            "STOA_EMAIL_FROM": f"shop@{SHOP}",
            "STOA_STOREFRONT_URL": f"https://{SHOP}",
            "STOA_SHOP_PUBLIC_URL": f"https://{SHOP}",
            "STOA_MODEL_SERVER_PUBLIC_URL": f"https://{MODELS}",
            "STOA_DESCRIPTIONS_BASE_URL": f"https://{MODELS}/v1",
        }
        example = (CHECKOUT / "deploy" / "systemd" / "stoa.env.example").read_text()
        for setting, value in values.items():
            example = re.sub(rf"^{setting}=.*$", f"{setting}={value}", example, flags=re.MULTILINE)
        assert not (missing := [name for name in values if f"\n{name}={values[name]}\n" not in example]), missing
        (first.folder / "etc" / "stoa" / "stoa.env").write_text(f"{example}STOA_SEARCH_MODEL=\n")

    def install_postgresql(self, name: str) -> None:
        """Run a new PostgreSQL server on a machine, which answers there only."""
        binaries = find_binaries()
        assert binaries, "PostgreSQL is not installed here: apt-get install postgresql"
        self.machines[name].run(f"""
            install -d -o postgres -g postgres /var/lib/postgresql /run/postgresql
            runuser -u postgres -- {binaries}/initdb -D /var/lib/postgresql/data -A trust --no-sync > /dev/null
            cat > /etc/systemd/system/postgresql.service <<'EOF'
{POSTGRESQL.format(binaries=binaries)}EOF
            systemctl start postgresql
            until runuser -u postgres -- psql -qtAc 'SELECT 1' > /dev/null 2>&1; do sleep 0.2; done
        """)

    def start_first(self) -> None:
        """Start what the install page starts last, and return when the models are loaded."""
        self.machines["first"].run("""
            systemctl enable --now stoa.target
            until curl -sf http://127.0.0.1:8001/health | grep -q '"healthy"'; do sleep 1; done
        """)

    def connect_client(self, api_key: str) -> None:
        """Give the client the first machine's address, its certificate and a key."""
        first, client = self.machines["first"], self.machines[CLIENT]
        shutil.copy(first.folder / TLS / "fullchain.pem", client.folder / "var" / "stoa.pem")
        client.run(f"""
            echo '{first.address} {SHOP} {MODELS}' >> /etc/hosts
            export CURL_CA_BUNDLE=/var/stoa.pem API_KEY={api_key}
        """)

    def share_files(self) -> None:
        """Let the second machine see the folder that the first one shares."""
        shared = self.machines["first"].folder / "var/lib/stoa/shared"
        shared.mkdir(exist_ok=True)
        self.machines["second"].run(f"mkdir -p /var/lib/stoa/shared; mount --bind {shared} /var/lib/stoa/shared")


@contextlib.contextmanager
def running_cluster(folder: Path, *names: str) -> Iterator[Cluster]:
    """Yield these machines of the page and a client, connected."""
    folder.chmod(0o755)  # users of services must reach it
    print(f"Machines: {', '.join(names)}.", file=sys.stderr)
    with connected_machines(folder, {name: ADDRESSES[name] for name in (*names, CLIENT)}) as machines:
        yield Cluster(machines)
