"""Worker processes that are killed while they embed the products."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.commerce.live_server import copy_shop, manage, shop_environment
from tests.commerce.search.embedding_server import EmbeddingServer

REPOSITORY = Path(__file__).resolve().parents[3]
RUN = """
import django
django.setup()
from django.utils import timezone
from commerce.catalog.search.vectors import embedding
embedding.BATCH_SIZE = 2
print("ready", flush=True)
embedding.update_vectors(now=timezone.now())
"""
STATE = """
from django.db.models import Count
from commerce.catalog.models import Product
from commerce.catalog.search.models import ProductVector
doubled = ProductVector.objects.values("product", "model").annotate(n=Count("pk")).filter(n__gt=1).count()
counts = {model: ProductVector.objects.filter(model=model).count() for model in ("concepts", "better")}
print(Product.objects.count(), counts["concepts"], counts["better"], doubled)
"""

pytestmark = [pytest.mark.no_database, pytest.mark.timeout(180)]


def test_a_worker_killed_while_embedding_again_is_continued_and_doubles_nothing(server: EmbeddingServer) -> None:
    with tempfile.TemporaryDirectory(prefix="stoa") as home:
        environment = shop_environment(home, provider_url=server.url)
        copy_shop(home)

        def start(model: str) -> subprocess.Popen[str]:
            names = {"STOA_SEARCH_MODEL": model, "DJANGO_SETTINGS_MODULE": "commerce.config.settings.base"}
            return subprocess.Popen(
                [sys.executable, "-c", RUN], cwd=REPOSITORY, env=environment | names, stdout=subprocess.PIPE, text=True
            )

        def state() -> list[int]:
            return [int(number) for number in manage(environment, "shell", "-v", "0", "-c", STATE).split()]

        with start("concepts") as whole:
            assert whole.wait(60) == 0
        total, old, new, doubled = state()
        assert (old, new, doubled) == (total, 0, 0)
        server.sizes["better"], server.delay_seconds = 24, 0.3
        asked = len(server.texts)
        with start("better") as killed:
            deadline = time.monotonic() + 60
            while len(server.texts) < asked + 6 and time.monotonic() < deadline:
                time.sleep(0.01)
            killed.kill()
        total, old, new, doubled = state()
        assert (old, doubled) == (total, 0), "the former vectors stay until all new ones are there"
        assert 2 <= new < total
        server.delay_seconds = 0.0
        with start("better") as second:
            assert second.wait(60) == 0
        assert state() == [total, 0, total, 0]
        assert len(server.texts) - asked <= total + 2, "what was stored is not embedded again"
