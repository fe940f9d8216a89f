"""Both projects as in production, with their data on a disk that can be filled, and a webhook receiver."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.benchmarks.system._machines import NETWORK, Machines, python
from tests.benchmarks.system._production import Production, is_ready

DISK_MIB = 640
RECEIVER = (f"{NETWORK}.1", 9300)
FILLER = "filler"
MAKE_KEYS = """
import json
from django.utils import timezone
from shared.accounts.models import User
from shared.accounts.services import create_api_key
keys = {user.email: create_api_key(user=user, name="soak", now=timezone.now())[1] for user in User.objects.all()}
print(json.dumps(keys))
"""


class ProductionWithShop(Production):
    """The model server, and two web servers and a worker of the shop, on the same database and Redis."""

    def __init__(self, machines: Machines) -> None:
        super().__init__(machines)
        for number in (1, 2):
            self._start_shop(number)
        address = self.machines.add("shop-worker", 61)
        celery = python("-m", "celery", "-A", "commerce.config.celery", "worker", "--concurrency", "1")
        self.machines.start("shop-worker", celery, self._shop_environment("shop-worker", address))

    def make_disk(self) -> Path:
        return self.machines.add_disk("disk", DISK_MIB)

    def _environment(self, name: str, address: str) -> dict[str, str]:
        host, port = RECEIVER
        return super()._environment(name, address) | {"STOA_WEBHOOK_ALLOW": f"{host}:{port}"}

    def _shop_environment(self, name: str, address: str) -> dict[str, str]:
        return self._environment(name, address) | {
            "DJANGO_SETTINGS_MODULE": "commerce.config.settings.production",
            "STOA_EMAIL_URL": "smtp://127.0.0.1:9",  # no server listens there: emails stay in the outbox
            "STOA_EMAIL_FROM": "shop@shop.example",
            "STOA_STOREFRONT_URL": "https://shop.example",
            "STOA_REQUESTS_PER_MINUTE": "100000",
            "STOA_MEDIA_ROOT": str(self.disk / "media"),
        }

    def _start_shop(self, number: int) -> None:
        name = f"shop-{number}"
        address = self.machines.add(name, 50 + number)
        environment = self._shop_environment(name, address)
        if number == 1:
            manage = python("manage_commerce.py")
            self.machines.run(name, [*manage, "migrate", "--noinput", "-v0"], environment)
            seed = environment | {"DJANGO_SETTINGS_MODULE": "commerce.config.settings.base"}
            self.machines.run(name, [*manage, "seed", "--small"], seed)
            output = self.machines.run(name, [*manage, "shell", "-v", "0", "-c", MAKE_KEYS], environment)
            self.keys: dict[str, str] = json.loads(output)
        serve = ["manage_commerce.py", "serve", "--host", address, "--port", "8000", "--drain", "20"]
        self.machines.start(name, python(*serve), environment, is_ready(address, 8000))

    def fill_disk(self) -> None:
        with (self.disk / FILLER).open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(64 * 1024))

    def empty_disk(self) -> None:
        (self.disk / FILLER).unlink()


class Receiver:
    """Webhook receiver; `deliveries` counts the deliveries of each batch."""

    def __init__(self) -> None:
        self.url = f"http://{RECEIVER[0]}:{RECEIVER[1]}/hook"
        self.deliveries: Counter[str] = Counter()

    @contextmanager
    def listening(self) -> Iterator["Receiver"]:
        deliveries = self.deliveries

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                deliveries[json.loads(body)["data"]["batch_id"]] += 1
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        server = ThreadingHTTPServer(RECEIVER, Handler)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
