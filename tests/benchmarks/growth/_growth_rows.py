"""The rows of a shop with many products, orders, reports and reviews, and what belongs to them in proportion.

They are copies of the rows of the route tests' world, made by PostgreSQL itself. A tenth of them belong to the users of
that world, so that their lists grow as the platform's do.
"""

from typing import Any

from django.db import connection
from django.db.models import QuerySet

from commerce.addresses.models import Address
from commerce.attachments.models import Attachment
from commerce.attributes.models import Attribute, AttributeValue
from commerce.attributes.services import MAX_ATTRIBUTES_PER_SHOP
from commerce.catalog.models import Category, Product, ProductValue, Tag, Variation, VariationValue
from commerce.catalog.stock import LOWEST_OF_VARIATIONS
from commerce.descriptions.models import DescriptionDraft, DescriptionJob
from commerce.moderation.models import AbuseReport, Appeal, Case, Decision, Notice, Sanction
from commerce.orders.models import Order, OrderLine, Refund
from commerce.reviews.models import Question, Review
from commerce.reviews.services import MAX_QUESTIONS_PER_USER, MAX_REVIEWS_PER_USER
from commerce.shops.models import Shop, ShopStaff, StaffInvitation
from shared.accounts.models import SignIn, User
from shared.webhooks.models import Delivery, Endpoint
from tests.commerce.routes.scenario import World

DAYS = 1095  # in which the rows were written, in a shop of any size
WORDS = 1000  # different words in the names of products: each finds a thousandth of them
INDEX_PRODUCTS = """
    INSERT INTO commerce_search_searchdocument (product_id, product_updated_at, shop_name, language, text)
    SELECT product.id, product.updated_at, shop.name, product.language,
           setweight(to_tsvector('english', product.name), 'A')
    FROM commerce_catalog_product product JOIN commerce_shops_shop shop ON shop.id = product.shop_id
    WHERE product.id NOT IN (SELECT product_id FROM commerce_search_searchdocument)
    """


def copy(rows: QuerySet[Any], count: int, **changed: str) -> range:
    """Insert copies of the first of these rows, and return their ids.

    `changed` are the SQL expressions of columns, in which `n` is the number of the copy.
    """
    meta: Any = rows.model._meta
    key = meta.pk.column
    columns = [field.column for field in meta.concrete_fields if not (field.primary_key or field.generated)]
    columns += [key] if key in changed else []
    values = ", ".join(changed.get(column, f'"{column}"') for column in columns)
    quoted = ", ".join(f'"{column}"' for column in columns)
    with connection.cursor() as cursor:
        first = rows.order_by(meta.pk.name).values_list("pk", flat=True)[0]
        cursor.execute(
            f'INSERT INTO "{meta.db_table}" ({quoted}) SELECT {values} FROM "{meta.db_table}", '  # noqa: S608
            f"generate_series(0, {count - 1}) n WHERE \"{key}\" = '{first}' ORDER BY n"
        )
        if key in changed:
            return range(0)
        cursor.execute(f'SELECT max(id) FROM "{meta.db_table}"')  # noqa: S608
        last = cursor.fetchone()[0]
    return range(last - count + 1, last + 1)


def pick(ids: range, number: str = "n") -> str:
    """Return the expression of one of the ids by a number."""
    return f"{ids.start} + {ids.step} * (({number}) % {len(ids)})"


def share(ids: range, own: Any, number: str = "n", most: int | None = None) -> str:
    """Return the expression of `own` for a tenth, `most` at most, and of one of the ids for the other copies."""
    condition = "n % 10 = 0" if most is None else f"n % 10 = 0 AND n < {10 * most}"
    return f"CASE WHEN {condition} THEN {own} ELSE {pick(ids, number)} END"


def one_in_ten(value: str, other: str) -> str:
    """Return the expression of a value that a tenth has, of the world's rows and of others."""
    return f"CASE WHEN n / 10 % 10 = 0 THEN {value} ELSE {other} END"


class ShopRows:
    """Copies of a world's rows: `size` products, orders, reports and reviews, and less of the others."""

    def __init__(self, world: World, size: int) -> None:
        self.world, self.size = world, size
        self.own = {identity: user.pk for identity, user in world.users.items()} | world.names

    def times(self, count: int) -> dict[str, str]:
        """Return the columns of times, of which the last copy has the present one."""
        at = f"now() - interval '{DAYS} days' * ({count} - n) / {count}"
        return {"created_at": at, "updated_at": at}

    def insert(self) -> None:
        self._insert_people()
        self._insert_products()
        self._insert_orders()
        self._insert_contents()
        self._insert_moderation()
        self._insert_others()

    def _users(self, role: str, count: int) -> range:
        """Copy the world's user of a role."""
        rows = User.objects.filter(pk=self.own[role])
        mail, name = f"'{role}' || n || '@growth.example'", f"'{role.title()} ' || n"
        return copy(rows, count, email=mail, name=name, created_at=self.times(count)["created_at"])

    def _insert_people(self) -> None:
        self.users, shops = self._users("customer", self.size // 2), self.size // 100
        owners, staff = self._users("owner", shops), self._users("staff", shops)
        self.shops = copy(
            Shop.objects.all(), shops, name="'Shop ' || n", slug="'shop-' || n",
            owner_id=pick(owners), is_active=one_in_ten("false", "true"),
            orders_count="n % 100", **self.times(shops),
        )  # fmt: skip
        self.of_shop = share(self.shops, self.own["shop"])
        self.of_user = share(self.users, self.own["customer"])
        at = self.times(shops)["created_at"]
        copy(ShopStaff.objects.all(), shops, user_id=pick(staff), shop_id=self.of_shop, created_at=at)
        nonce, mail = "gen_random_uuid()", "'new' || n || '@growth.example'"
        copy(StaffInvitation.objects.all(), shops, nonce=nonce, email=mail, shop_id=self.of_shop, created_at=at)
        count = self.size // 2
        key = {"id": "gen_random_uuid()", "refresh_id": "gen_random_uuid()"}
        copy(SignIn.objects.all(), count, user_id=pick(self.users), **key)
        copy(Address.objects.all(), count, customer_id=pick(self.users), default="false", **self.times(count))

    def _insert_products(self) -> None:
        size, few = self.size, self.size // 100
        names = {"name": "'Name ' || n", "slug": "'slug-' || n"}
        groups = max(1, size // 500)
        categories = copy(Category.objects.all(), groups, **names, **self.times(groups))
        tags = copy(Tag.objects.all(), groups, **names, **self.times(groups))
        shop = share(self.shops, self.own["shop"], most=MAX_ATTRIBUTES_PER_SHOP // 2)
        attributes = copy(Attribute.objects.all(), few, **names, shop_id=shop, **self.times(few))
        values = copy(AttributeValue.objects.all(), 3 * few, attribute_id=pick(attributes), value="'Value ' || n")
        self.images = copy(
            Attachment.objects.all(), size, key="md5(n::text)", owner_id=pick(self.users),
            shop_id=pick(self.shops), name="'photo-' || n || '.webp'", **self.times(size),
        )  # fmt: skip
        self.products = copy(
            Product.objects.all(), size, shop_id=self.of_shop, image_id=pick(self.images), slug="'lamp-' || n",
            name=f"'Lamp word' || n % {WORDS} || ' number ' || n", sku="'SKU' || n",
            price="100 + n % 100000 * 7919 % 100000", sale_price="null", quantity="n / 10 * 7 % 100",
            sold_quantity="n * 31 % 5000", rating_count="n % 7", rating_sum="n % 7 * (1 + n % 5)",
            status=one_in_ten("'draft'", "'publish'"),
            language="CASE WHEN n / 10 % 10 = 1 THEN 'de' ELSE 'en' END", **self.times(size),
        )  # fmt: skip
        in_category, with_tag = Product.categories.through, Product.tags.through
        product = pick(self.products)
        for model, column, ids in ((in_category, "category_id", categories), (with_tag, "tag_id", tags)):
            self.world.names[f"popular_{column}"] = ids[0]  # the world's own can be deleted
            model._default_manager.create(product_id=self.own["product"], **{column: ids[0]})
            copy(model._default_manager.all(), size, product_id=product, **{column: share(ids, ids[0])})
        copy(ProductValue.objects.all(), size // 5, product_id=product, value_id=pick(values))
        variations = copy(
            Variation.objects.all(), size // 10, product_id=product, quantity="n * 7 % 100", title="'T ' || n"
        )
        Product.objects.filter(pk__in=self.products).update(lowest_variation_quantity=LOWEST_OF_VARIATIONS)
        copy(VariationValue.objects.all(), size // 10, variation_id=pick(variations), value_id=pick(values))
        with connection.cursor() as cursor:
            cursor.execute(INDEX_PRODUCTS)

    def _insert_orders(self) -> None:
        size, order = self.size, {"customer_id": self.of_user, **self.times(self.size)}
        order["customer_contact"] = "'+353 21 555 0100'"
        order["order_status"] = one_in_ten("'processing'", "'complete'")
        first = Order.objects.latest("pk").pk + 1
        parent_id = f"{first} + 2 * n"  # each before its child, as orders are placed
        copy(
            Order.objects.filter(parent=None), size, id=parent_id, tracking_number="'P' || n", paid_total="0",
            total="amount + n / 10 % 100", sales_tax="n / 10 % 100", delivery_fee="0", discount="0",
            refunded_total="0", **order,
        )  # fmt: skip
        copy(
            Order.objects.exclude(parent=None), size, id=f"{parent_id} + 1", tracking_number="'C' || n",
            parent_id=parent_id, shop_id=self.of_shop, **order,
        )  # fmt: skip
        self.orders = range(first + 1, first + 2 * size, 2)
        with connection.cursor() as cursor:
            sequence = f"pg_get_serial_sequence('{Order._meta.db_table}', 'id')"
            cursor.execute(f"SELECT setval({sequence}, {self.orders[-1]})")
        copy(OrderLine.objects.filter(variation=None), size, order_id=pick(self.orders), product_id=pick(self.products))
        count = size // 20
        status = "CASE WHEN n / 10 % 2 = 0 THEN 'requested' ELSE 'approved' END"
        of = {"customer_id": self.of_user, "shop_id": self.of_shop, "status": status}
        copy(Refund.objects.all(), count, order_id=pick(self.orders), amount="1 + n % 50", **of, **self.times(count))

    def _insert_contents(self) -> None:
        """Copy a review, a tenth of which are about the world's product, and a question."""
        product = f"CASE WHEN n % 10 = 1 THEN {self.own['product']} ELSE {pick(self.products)} END"
        most = min(MAX_REVIEWS_PER_USER, MAX_QUESTIONS_PER_USER) // 2
        user = share(self.users, self.own["customer"], "n / 3", most)
        of = {"user_id": user, "product_id": product, "shop_id": self.of_shop}
        self.reviews = copy(
            Review.objects.filter(order=None), self.size, rating="1 + n / 10 % 5", deleted_at="null",
            hidden_at="null", **of, **self.times(self.size),
        )  # fmt: skip
        count = self.size // 2
        answer = one_in_ten("''", "'It does.'")
        copy(
            Question.objects.all(), count, answer=answer, answered_at="now()", deleted_at="null", hidden_at="null",
            **of, **self.times(count),
        )  # fmt: skip

    def _insert_moderation(self) -> None:
        """Copy a report of each review with its case, and decisions of a fifth of them."""
        size, few, at = self.size, self.size // 5, self.times(self.size)["created_at"]
        content = {"model_type": "'Review'", "model_id": pick(self.reviews)}
        cases = copy(
            Case.objects.all(), size, **content, author_id=self.of_user, shop_id=self.of_shop, newest_at=at,
            oldest_at=at, state=one_in_ten("'rejected'", "'open'"), is_waiting=one_in_ten("false", "true"), hiding="''",
            reports_count="1", weight="n % 1000", claimed_by_id="null", claimed_until="null", **self.times(size),
        )  # fmt: skip
        copy(
            AbuseReport.objects.all(), size, **content,
            user_id=share(self.users, self.own["another customer"], "n / 7"),
            status=one_in_ten("'accepted'", "'open'"), **self.times(size),
        )  # fmt: skip
        decisions = copy(
            Decision.objects.all(), few, case_id=pick(cases), author_id=self.of_user,
            action=one_in_ten("'accepted'", "'rejected'"), created_at=self.times(few)["created_at"],
        )  # fmt: skip
        due = "now() - interval '1 day'"
        notice = Notice.objects.filter(sanction=None)
        copy(notice, few, user_id=self.of_user, decision_id=pick(decisions), due_at=due, mail_due_at="null")
        appeal = {"decision_id": pick(decisions), "author_id": self.of_user, "status": "'open'", "decided_at": "null"}
        copy(
            Appeal.objects.all(),
            size // 10,
            **appeal,
            result_id="null",
            created_at=self.times(size // 10)["created_at"],
        )
        copy(
            Sanction.objects.all(),
            size // 20,
            user_id=pick(self.users),
            created_at=self.times(size // 20)["created_at"],
        )

    def _insert_others(self) -> None:
        """Copy drafts, jobs, and webhooks with their deliveries."""
        count, few, at = self.size // 10, self.size // 100, self.times(self.size // 10)["created_at"]
        copy(DescriptionDraft.objects.all(), count, product_id=pick(self.products, "n * 10"), created_at=at)
        ended = {"state": "'cancelled'", "ended_at": "now()"}
        copy(DescriptionJob.objects.all(), few, **ended, created_at=self.times(few)["created_at"])
        hooks = copy(
            Endpoint.objects.all(), few, public_id="'wh_' || n", url="'https://8.8.8.8/' || n",
            user_id=pick(self.users),
        )  # fmt: skip
        endpoint = share(hooks, Endpoint.objects.get(public_id=self.own["webhook"]).pk)
        sent = {"state": "'delivered'", "due_at": "null", "finished_at": "now()"}
        copy(Delivery.objects.all(), self.size // 2, public_id="'msg_' || n", endpoint_id=endpoint, **sent)
