"""Twenty concurrent moderators on one queue, who use the forms of the admin over HTTP."""

import asyncio
import re
import secrets
import time
from collections import Counter

import httpx2
import pytest

from tests.commerce.live_server import ServedShop, manage, served_shop
from tests.commerce.moderation.admin.moderator_browser import QUEUE

MODERATORS = 20
EVERY_DAY, WEIGHT_SCALE = 30, 300
SIGN_IN = """
from importlib import import_module
from django.conf import settings
from django.contrib import auth
from tests.commerce.moderation.sample_queue import fill_queue, make_person
fill_queue({items})
for number in range({moderators}):
    user = make_person(f"Moderator {{number}}", role="SUPER_ADMIN")
    session = import_module(settings.SESSION_ENGINE).SessionStore()
    session[auth.SESSION_KEY] = str(user.pk)
    session[auth.BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[auth.HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    print(settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME, session.session_key)
"""
TOLD = """
from commerce.moderation.models import Case, Decision
from shared.audit.models import AuditEntry
made = Decision.objects.filter(moderator__isnull=False)
logged = AuditEntry.objects.filter(actor__isnull=False, action__startswith="moderation.")
print(Case.objects.waiting().count(), made.count(), made.values("case").distinct().count(), logged.count())
"""


async def moderate(shop: ServedShop, signed_in: list[str], number: int) -> Counter[int]:
    """Decide about the first case until the queue is empty, and return the statuses of the responses."""
    session_name, csrf_name, session = signed_in
    statuses: Counter[int] = Counter()
    token = secrets.token_hex(16)
    cookies = {session_name: session, csrf_name: token}
    headers = {"X-CSRFToken": token, "Accept": "application/json", "Referer": shop.url}
    async with httpx2.AsyncClient(base_url=shop.url, cookies=cookies, headers=headers, timeout=120) as browser:
        while True:
            page = await browser.get(QUEUE, params={"part": "rows"})
            assert page.status_code == 200, page.text
            items = re.findall(r'data-case="(\d+)"', page.text)
            if not items:
                return statuses
            for item in dict.fromkeys(items[:3]):
                action = ("accepted", "rejected")[number % 2]
                answer = await browser.post(f"{QUEUE}{item}/decide/", data={"action": action})
                statuses[answer.status_code] += 1


@pytest.mark.timeout(600)
async def test_c4_twenty_moderators_at_one_queue_decide_about_each_item_once(whole: bool, empty_database_url: str):
    items = WEIGHT_SCALE if whole else EVERY_DAY
    with served_shop(provider_url="http://127.0.0.1:9", database_url=empty_database_url) as shop:
        before = manage(shop.environment, "shell", "-v", "0", "-c", SIGN_IN.format(items=items, moderators=MODERATORS))
        sessions: list[list[str]] = [line.split() for line in before.splitlines()]
        waiting = int(manage(shop.environment, "shell", "-v", "0", "-c", TOLD).split()[0])
        began = time.monotonic()
        told = await asyncio.gather(*(moderate(shop, line, number) for number, line in enumerate(sessions)))
        taken = time.monotonic() - began
        left, made, about, logged = map(int, manage(shop.environment, "shell", "-v", "0", "-c", TOLD).split())

    statuses = sum(told, Counter())
    print(f"20 moderators, {waiting} items, {taken:.1f} s: {dict(statuses)}; decisions {made} about {about}")
    assert len(sessions) == MODERATORS
    assert waiting >= items
    assert (left, made, about, logged) == (0, waiting, waiting, waiting)
    assert statuses[200] == waiting
    assert set(statuses) <= {200, 404, 409}
