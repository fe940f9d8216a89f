"""A small world in which every route has something to act on: two shops with their people, two customers, and what
they have made."""

import json
import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.core import signing
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http.response import HttpResponseBase
from django.test import Client
from django.test.client import BOUNDARY, MULTIPART_CONTENT, encode_multipart
from django.utils import timezone

from commerce.addresses.services import create_address
from commerce.attributes.services import create_attribute
from commerce.catalog.models import Category, Product, ProductType, Tag
from commerce.descriptions.jobs.services import DescriptionOptions, create_job
from commerce.descriptions.services import save_draft
from commerce.descriptions.text.prompts import DescriptionRequest
from commerce.moderation.appeals import file_appeal
from commerce.moderation.models import Notice
from commerce.moderation.sanctions import appeal_sanction, impose_sanction
from commerce.moderation.services import decide, file_report
from commerce.orders.services import request_refund
from commerce.shops.invitations import SALT
from commerce.shops.models import Shop, ShopStaff, StaffInvitation
from commerce.webhooks.events import ShopEvent
from shared.accounts.email.links import LinkPurpose, create_link_token
from shared.accounts.models import SignIn, User
from shared.accounts.roles import Role
from shared.accounts.services import TokenPair, create_user, sign_in
from shared.webhooks.services import build_delivery, create_endpoint, event_body
from tests.commerce.attachments.samples import pdf_file
from tests.commerce.orders.factories import buy, make_goods
from tests.commerce.reviews.factories import ask, make_photo, review

PASSWORD = "correct horse battery"
IDENTITIES = {
    "nobody": None,
    "customer": Role.CUSTOMER,
    "another customer": Role.CUSTOMER,
    "staff": Role.STAFF,
    "other shop's staff": Role.STAFF,
    "owner": Role.STORE_OWNER,
    "other owner": Role.STORE_OWNER,
    "super admin": Role.SUPER_ADMIN,
    "moderator": Role.MODERATOR,
}
HOME = {"street_address": "12 Harbour Street", "city": "Cork", "state": "", "zip": "T12 X2Y3", "country": "IE"}
CSV = b"name,slug,language,value,meta\nColour,colour,en,Red,#ff0000\n"


@dataclass
class World:
    """`names` are the values of placeholders in paths and bodies, as in /api/orders/{order}."""

    users: dict[str, User] = field(default_factory=dict)
    pairs: dict[str, TokenPair] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)

    def headers(self, identity: str) -> dict[str, str]:
        pair = self.pairs.get(identity)
        return {"Authorization": f"Bearer {pair.access}"} if pair else {}

    def request(
        self,
        identity: str,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
        client: Client | None = None,
    ) -> HttpResponseBase:
        """Send a request as one of the users. A body is sent as JSON, or as a form if it contains bytes."""
        headers = self.headers(identity) if headers is None else headers
        client = client or Client(raise_request_exception=False, headers=headers)
        url = path.format(**self.names)
        if body is None:
            return client.generic(method, url)
        sent = self.filled(body, identity)
        if any(isinstance(value, bytes) for value in sent.values()):
            form = encode_multipart(BOUNDARY, {name: _part(value) for name, value in sent.items()})
            return client.generic(method, url, form, content_type=MULTIPART_CONTENT)
        return client.generic(method, url, json.dumps(sent), content_type="application/json")

    def filled(self, body: Any, identity: str) -> Any:
        """Return the body with its placeholders replaced; `{me}` is the id of the requesting user."""
        if isinstance(body, dict):
            return {key: self.filled(value, identity) for key, value in body.items()}
        if isinstance(body, list):
            return [self.filled(value, identity) for value in body]
        if isinstance(body, str) and body.startswith("{") and body.endswith("}"):
            user = self.users.get(identity)
            return {**self.names, "me": user.pk if user else 1}[body[1:-1]]
        return body


def _part(value: Any) -> Any:
    return SimpleUploadedFile("manual.pdf", value) if isinstance(value, bytes) else value


def make_world() -> World:
    world = World()
    for identity, role in IDENTITIES.items():
        if role:
            world.users[identity] = _user(identity, role)
            world.pairs[identity] = _signed_in(world.users[identity])
    shop, other = _shop(world, "Corner", "owner", "staff"), _shop(world, "Other", "other owner", "other shop's staff")
    customer = world.users["customer"]
    lamp = make_goods(shop, "velmo-lamp")
    make_goods(other, "other-lamp")
    make_goods(shop, "shirt", product_type=Product.Kind.VARIABLE, status=Product.Status.DRAFT)
    order = buy(customer, (lamp, 2), shipping_address=HOME)
    part, now = order.children.get(), timezone.now()
    refund = request_refund(customer=customer, order_id=part.pk, amount=100, reason="Scratched", now=now)
    fields = {"title": "Home", "type": "billing", "address": HOME, "default": True, "now": now}
    address = create_address(actor=customer, customer_id=customer.pk, **fields)  # type: ignore[arg-type]
    values = [{"value": "Oak", "meta": "wood"}]
    attribute = create_attribute(actor=shop.owner, shop_id=shop.pk, name="Material", values=values, now=now)
    photo = make_photo(customer)
    invited = _invitation(shop)
    category = Category.objects.create(name="Lamps", slug="lamps", type=lamp.type)
    asked = DescriptionRequest(product_name=lamp.name, keywords=("brass",), tone="friendly")
    draft = save_draft(product=lamp, author=shop.owner, request=asked, text="The Velmo lamp glows.", now=now)
    world.names = {
        "shop": shop.pk,
        "product": lamp.pk,
        "product_type": lamp.type_id,
        "empty_type": ProductType.objects.create(name="Toys", slug="toys").pk,
        "category": category.pk,
        "tag": Tag.objects.create(name="Bestseller", slug="bestseller").pk,
        "draft": draft.pk,
        "job": create_job(author=shop.owner, product_ids=[lamp.pk], options=DescriptionOptions(), now=now).pk,
        "order": part.pk,
        "another_order": buy(customer, (lamp, 1)).children.get().pk,
        "refund": refund.pk,
        "address": address.pk,
        "attribute": attribute.pk,
        "attachment": photo.pk,
        "media": f"{photo.key}/photo.webp",
        "review": review(customer, lamp).pk,
        "question": ask(customer, lamp).pk,
        **_moderated(world, other),
        **_webhook(shop.owner),
        "password": PASSWORD,
        "email": customer.email,
        "refresh": _signed_in(customer).refresh,
        "session": SignIn.objects.filter(user=customer).latest("created_at").pk,
        "reset": create_link_token(customer, LinkPurpose.RESET_PASSWORD, now=now),
        "verification": create_link_token(customer, LinkPurpose.VERIFY_EMAIL, now=now),
        "member": world.users["staff"].pk,
        "invited": invited.pk,
        "invitation": signing.dumps({"id": invited.pk, "nonce": invited.nonce.hex}, salt=SALT),
        "pdf": pdf_file(),
        "csv": CSV,
        "products_csv": b"name,type,price,quantity\nFjell lamp,home,19.90,3\n",
        "variations_csv": b"product,title,price,quantity\nshirt,L,21.00,3\n",
    }
    return world


def _moderated(world: World, shop: Shop) -> dict[str, Any]:
    """Create a reported question, and two removed contents of the customer, one of them with an appeal."""
    customer, admin, now = world.users["customer"], world.users["super admin"], timezone.now()
    product = Product.objects.get(shop=shop)
    asked = ask(customer, product)
    report = file_report(
        user=world.users["another customer"], model_type="Question", model_id=asked.pk, message="Spam.", now=now
    )
    notices = []
    for kind, content in (("Review", review(customer, product)), ("Question", ask(customer, product))):
        earlier = now - timedelta(hours=1)
        decision = decide("accepted", model_type=kind, model_id=content.pk, moderator=admin, now=earlier)
        notices.append(decision.notices.get().pk)
    young = decide("warned", model_type="Question", model_id=asked.pk, moderator=admin, now=now)
    decisions = {"decision": Notice.objects.get(pk=notices[0]).decision_id, "young_decision": young.pk}
    appeal = file_appeal(author=customer, notice_id=notices[1], message="It was one.", now=now)
    hidden = ask(customer, product)
    reporter = world.users["another customer"]
    file_report(user=reporter, model_type="Question", model_id=hidden.pk, message="Spam.", now=now)
    decide("hidden", model_type="Question", model_id=hidden.pk, moderator=admin, now=now)
    sanctions = [
        impose_sanction(user_id=customer.pk, kind="warning", reason="Be polite.", moderator=admin, now=now)
        for _ in range(2)
    ]
    appeal_sanction(sanction_id=sanctions[1].pk, user=customer, message="I was.", now=now)
    names = {"reported": asked.pk, "hidden": hidden.pk, "another_customer": reporter.pk}
    names |= {"sanction": sanctions[0].pk, "appealed_sanction": sanctions[1].pk}
    return names | {"report": report.pk, "notice": notices[0], "appeal": appeal.pk, **decisions}


def _webhook(owner: User) -> dict[str, Any]:
    """Create a webhook of this owner with a delivery."""
    now, event = timezone.now(), ShopEvent.REVIEW_CREATED
    endpoint = create_endpoint(
        user=owner, url="https://8.8.8.8/shop", events=[event], is_enabled=True, now=now
    ).endpoint
    body = event_body(event, {"shop_id": 1}, now)
    delivery = build_delivery(endpoint=endpoint, url=endpoint.url, event=event, body=body, now=now)
    delivery.save()
    return {"webhook": endpoint.public_id, "delivery": delivery.public_id}


def _user(identity: str, role: Role) -> User:
    email = f"{identity.replace(' ', '-').replace(chr(39), '')}@example.com"
    user = create_user(email=email, name=identity.title(), password=PASSWORD, role=role, now=timezone.now())
    if role == Role.STORE_OWNER:  # others are not invited by an unconfirmed owner
        user.email_verified_at = timezone.now()
        user.save(update_fields=["email_verified_at"])
    return user


def _signed_in(user: User) -> TokenPair:
    return sign_in(email=user.email, password=PASSWORD, address="192.0.2.1", now=timezone.now())


def _shop(world: World, name: str, owner: str, staff: str) -> Shop:
    shop = Shop.objects.create(owner=world.users[owner], name=name, slug=name.lower())
    ShopStaff.objects.create(user=world.users[staff], shop=shop)
    return shop


def _invitation(shop: Shop) -> StaffInvitation:
    now = timezone.now()
    times = {"created_at": now, "expires_at": now + timedelta(days=1)}
    return StaffInvitation.objects.create(
        shop=shop, email="new@example.com", invited_by=shop.owner, nonce=uuid.uuid4(), **times
    )
