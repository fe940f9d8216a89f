"""Operations on a shop, and the comparison of its tables with what its clients know."""

import io
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from tests.commerce.live_server import manage
from tests.network.clients import Operation, Operations

Rows = Callable[[str], list[tuple[Any, ...]]]  # runs a query on the database, past the relays
STOCKED_UNITS = 1_000_000
SET_STOCK = "UPDATE commerce_catalog_product SET quantity = 1000000 WHERE product_type = 'simple'"
PRODUCTS = """
    SELECT min(id) FROM commerce_catalog_product WHERE product_type = 'simple' AND status = 'publish' GROUP BY shop_id
"""
ORDERS = """
    SELECT customer_contact FROM commerce_orders_order WHERE parent_id IS NULL AND customer_contact LIKE 'op-%'
"""
WRONG_ORDERS = """
    SELECT parent.id FROM commerce_orders_order parent WHERE parent_id IS NULL AND customer_contact LIKE 'op-%' AND (
        amount <> (SELECT coalesce(sum(amount), -1) FROM commerce_orders_order WHERE parent_id = parent.id)
        OR amount <> (SELECT coalesce(sum(subtotal), -1) FROM commerce_orders_orderline line
            JOIN commerce_orders_order child ON child.id = line.order_id WHERE child.parent_id = parent.id)
        OR total <> amount + sales_tax + delivery_fee - discount
        OR refunded_total > paid_total)
"""
STOCK = """
    SELECT product.id, product.quantity + sold.quantity FROM commerce_catalog_product product
    JOIN (SELECT line.product_id, sum(CASE WHEN child.order_status IN ('cancelled', 'failed', 'refunded') THEN 0
            ELSE line.quantity END) AS quantity
        FROM commerce_orders_orderline line JOIN commerce_orders_order child ON child.id = line.order_id
        WHERE child.customer_contact LIKE 'op-%' GROUP BY line.product_id) sold ON sold.product_id = product.id
"""
STATUSES = "SELECT id, order_status FROM commerce_orders_order WHERE customer_contact LIKE 'op-%'"
REFUNDS = "SELECT reason, status FROM commerce_orders_refund WHERE reason LIKE 'op-%'"
QUESTIONS = "SELECT id, question FROM commerce_reviews_question WHERE question LIKE 'op-%'"
DECISIONS = """
    SELECT cases.model_id, decision.action FROM commerce_moderation_decision decision
    JOIN commerce_moderation_case cases ON cases.id = decision.case_id WHERE cases.model_type = 'Question'
"""
OPEN_REPORTS = "SELECT model_id FROM commerce_moderation_abusereport WHERE status = 'open'"
RECONCILE = """
import json
from django.utils import timezone
from commerce.analytics.aggregation.batches import aggregate_ledger
from commerce.analytics.aggregation.reconcile import find_differences
aggregate_ledger(now=timezone.now())
print(json.dumps([str(difference) for difference in find_differences()]))
"""
FILES = "SELECT name, key FROM commerce_attachments_attachment WHERE name LIKE 'op-%'"


@dataclass
class Acknowledged:
    """Acknowledged changes, by the numbers of operations, orders and questions."""

    orders: dict[int, int] = field(default_factory=dict)
    statuses: dict[int, str] = field(default_factory=dict)
    refunds: dict[int, str] = field(default_factory=dict)
    questions: dict[int, int] = field(default_factory=dict)
    decisions: dict[int, str] = field(default_factory=dict)
    files: set[int] = field(default_factory=set)


class ShopOperations(Operations):
    """Orders with their stock and money, decisions of moderators, uploads, descriptions and analytics.

    headers: credentials by role. products: a simple product of each of some shops.
    """

    def __init__(self, url: str, headers: Mapping[str, dict[str, str]], products: list[int]) -> None:
        super().__init__(url)
        self._as = headers
        self._products = products
        self.known = Acknowledged()

    def kinds(self) -> Mapping[str, tuple[Operation, int]]:
        return {
            "order": (self._order, 6),
            "decision": (self._decide, 3),
            "upload": (self._upload, 2),
            "description": (self._describe, 2),
            "analytics": (self._analytics, 1),
        }

    async def _order(self, number: int, dice: random.Random) -> None:
        chosen = dice.sample(self._products, min(2, len(self._products)))
        lines = [{"product_id": product, "order_quantity": dice.randint(1, 3)} for product in chosen]
        body = {"products": lines, "customer_contact": f"op-{number}"}
        placed = (await self.ask(number, "POST", "/api/orders", json=body, headers=self._as["CUSTOMER"])).json()
        self.known.orders[number] = placed["id"]
        step = dice.random()
        if step < 0.3:
            return
        path = f"/api/orders/{placed['id']}?with=children"
        children = (await self.ask(number, "GET", path, headers=self._as["CUSTOMER"])).json()["children"]
        status = "complete" if step < 0.8 else "cancelled"
        for child in children:
            path = f"/api/orders/{child['id']}"
            await self.ask(number, "PUT", path, json={"order_status": status}, headers=self._as["SUPER_ADMIN"])
            self.known.statuses[child["id"]] = status
        if step < 0.5:
            await self._refund(number, placed["id"], dice)

    async def _refund(self, number: int, order: int, dice: random.Random) -> None:
        body = {"order_id": order, "amount": 1, "reason": f"op-{number}"}
        refund = (await self.ask(number, "POST", "/api/refunds", json=body, headers=self._as["CUSTOMER"])).json()["id"]
        self.known.refunds[number] = "requested"
        status = dice.choice(["approved", "rejected"])
        path, options = f"/api/refunds/{refund}", {"json": {"status": status}, "headers": self._as["SUPER_ADMIN"]}
        await self.ask(number, "PUT", path, expected=(200, 422), **options)  # 422: an earlier attempt decided it
        self.known.refunds[number] = status

    async def _decide(self, number: int, dice: random.Random) -> None:
        body = {"product_id": self._products[0], "question": f"op-{number}: is it heavy?"}
        question = (await self.ask(number, "POST", "/api/questions", json=body, headers=self._as["CUSTOMER"])).json()
        self.known.questions[number] = question["id"]
        about = {"model_type": "Question", "model_id": question["id"]}
        report = about | {"message": "Advertising."}
        await self.ask(number, "POST", "/api/abusive_reports", json=report, headers=self._as["STAFF"])
        action = dice.choice(["accept", "reject"])
        body = about | {"note": "Read.", "reason": "A question."}
        path = f"/api/abusive_reports/{action}"
        await self.ask(number, "POST", path, json=body, headers=self._as["SUPER_ADMIN"])
        self.known.decisions[question["id"]] = f"{action}ed"

    async def _upload(self, number: int, dice: random.Random) -> None:
        picture = io.BytesIO()
        Image.new("RGB", (64, 64), (number % 256, dice.randrange(256), 80)).save(picture, "PNG")
        files = {"attachment[]": (f"op-{number}.png", picture.getvalue(), "image/png")}
        await self.ask(number, "POST", "/api/attachments", files=files, headers=self._as["STORE_OWNER"])
        self.known.files.add(number)

    async def _describe(self, number: int, dice: random.Random) -> None:
        body = {"product_name": f"Lamp {number}", "keywords": ["brass"]}
        path, headers = "/api/generate-descriptions", self._as["STORE_OWNER"]
        response = await self.attempt("POST", path, json=body, headers=headers)
        if response is None or response.status_code == 503:
            return
        if response.status_code == 500 and response.json()["code"] == "ai_provider_error":
            return
        if response.status_code != 200 or not response.json()["description"]:
            self.report(number, "POST", path, response)

    async def _analytics(self, number: int, dice: random.Random) -> None:
        await self.ask(number, "GET", "/api/analytics", headers=self._as["SUPER_ADMIN"])

    def differences(self, rows: Rows, stored_files: Callable[[], list[str]]) -> Iterator[str]:
        """Yield every difference between the tables and what was acknowledged, given up or refused."""
        yield from once("order", Counter(number_of(row[0]) for row in rows(ORDERS)), self.known.orders)
        yield from (f"the sums of order {row[0]} are wrong" for row in rows(WRONG_ORDERS))
        for product, units in rows(STOCK):
            if units != STOCKED_UNITS:
                yield f"product {product}: {units} units in stock and in orders, not {STOCKED_UNITS}"
        statuses = dict(rows(STATUSES))
        for order, status in self.known.statuses.items():
            if statuses.get(order) != status:
                yield f"order {order} is {statuses.get(order)}, acknowledged {status}"
        refunds = defaultdict(list)
        for reason, status in rows(REFUNDS):
            refunds[number_of(reason)].append(status)
        yield from once(
            "refund", Counter({number: len(found) for number, found in refunds.items()}), self.known.refunds
        )
        for number, status in self.known.refunds.items():
            if status != "requested" and refunds[number] != [status]:
                yield f"refund {number} is {refunds[number]}, acknowledged {status}"
        yield from self._decision_differences(rows)
        files = rows(FILES)
        yield from once("file", Counter(number_of(name) for name, _ in files), self.known.files)
        stored = "\n".join(stored_files())
        yield from (f"the file {name} is not stored" for name, key in files if key not in stored)

    def _decision_differences(self, rows: Rows) -> Iterator[str]:
        actions = defaultdict(list)
        for question, action in rows(DECISIONS):
            actions[question].append(action)
        yield from (f"question {one} was decided: {found}" for one, found in actions.items() if len(found) > 1)
        questions = {number_of(text): question for question, text in rows(QUESTIONS)}
        open_reports = {row[0] for row in rows(OPEN_REPORTS)}
        for number, question in self.known.questions.items():
            decision = self.known.decisions.get(question)
            if decision and actions[question] != [decision]:
                yield f"question {question}: {actions[question]}, acknowledged {decision}"
            if decision and question in open_reports:
                yield f"question {question} was decided, and its report is open"
            if actions[question] != ["accepted"] and questions.get(number) != question:
                yield f"question {question} is missing"


def once(kind: str, found: Counter[int], acknowledged: Any) -> Iterator[str]:
    """Yield what was acknowledged and is missing, and what is there more than once."""
    yield from (f"{kind} {number} is missing" for number in acknowledged if not found[number])
    yield from (f"{kind} {number} is there {count} times" for number, count in found.items() if count > 1)


def number_of(marker: str) -> int:
    """Return the number of the operation that wrote this text, such as `op-7: is it heavy?` or `op-7.png`."""
    return int(marker.removeprefix("op-").partition(":")[0].partition(".")[0])


def analytics_differences(environment: Mapping[str, str]) -> list[str]:
    """Aggregate and reconcile the analytics; return what differs from the tables of the shop."""
    output = manage(dict(environment), "shell", "-v", "0", "-c", RECONCILE)
    return list(json.loads(output.splitlines()[-1]))
