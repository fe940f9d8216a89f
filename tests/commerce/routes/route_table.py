"""Permissions of every route of the shop: each method, requested by nine users.

A row reads: the operation, then the status for nobody, the customer whose things they are, another customer, the staff
of the shop, another shop's staff, the owner of the shop, another shop's owner, a super admin, and a moderator. The last
may be left out: a moderator gets what another customer gets.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """An operation: `route` as in the URL configuration, `path` with placeholders of the world's names."""

    method: str
    route: str
    path: str
    statuses: tuple[int, ...]
    body: Any = None

    @property
    def name(self) -> str:
        return f"{self.method} {self.route}"


def row(operation: str, statuses: str, body: Any = None, *, path: str | None = None) -> Row:
    """Return a row. `statuses` has nine statuses, eight where a moderator is as any customer, or one for all users."""
    method, _, route = operation.partition(" ")
    each = tuple(int(status) for status in statuses.split())
    each = each * 9 if len(each) == 1 else each
    return Row(method, route, path or route, each if len(each) == 9 else (*each, each[2]), body)


PASSWORDS = {"old": "{password}", "new": "another good passphrase"}
NEW_ADDRESS = {"title": "Home", "type": "billing", "customer_id": "{me}", "address": {"city": "Cork", "country": "IE"}}
NEW_ORDER = {"products": [{"product_id": "{product}", "order_quantity": 1}]}
NEW_REFUND = {"order_id": "{another_order}", "amount": 2, "reason": "Scratched"}
NEW_PRODUCT = {"name": "Fjell lamp", "shop_id": "{shop}", "type_id": "{product_type}", "price": 19.9, "quantity": 3}
NEW_USER = {"name": "Grace", "email": "grace@example.com", "password": "{password}"}
REPORTED = {"model_type": "Review", "model_id": "{review}", "message": "Advertising.", "reason": "spam"}
CASE = {"model_type": "Question", "model_id": "{reported}"}
SANCTIONED = {"user_id": "{another_customer}", "kind": "suspension", "days": 7, "reason": "Advertising."}
HIDDEN = {"model_type": "Question", "model_id": "{hidden}"}
TOLD = {"note": "Seen before.", "reason": "It is advertising."}
APPEALED = {"message": "It was a joke."}
DECIDED = {"model_type": "Question", "model_id": "{question}", "note": "Seen before.", "reason": "It is advertising."}
OPTIONS = {
    "siteTitle": "Corner shop",
    "siteSubtitle": "Lamps and more",
    "currency": "EUR",
    "currencyOptions": {"formation": "en-IE", "fractions": 2},
    "logo": {"id": "{attachment}"},
    "seo": {
        "metaTitle": "Corner shop",
        "metaDescription": "Lamps, tables and chairs.",
        "metaTags": "lamps, tables",
        "canonicalUrl": "https://shop.example",
        "ogTitle": "Corner shop",
        "ogDescription": "Lamps, tables and chairs.",
        "ogImage": {"id": 7},
        "twitterHandle": "@corner",
        "twitterCardType": "summary",
    },
    "contactDetails": {
        "contact": "+353 21 000 0000",
        "emailAddress": "shop@shop.example",
        "website": "https://shop.example",
        "location": {"city": "Cork"},
        "socials": [{"icon": "mastodon", "url": "https://social.example/@corner"}],
    },
    "isUnderMaintenance": False,
    "maintenance": {
        "title": "Back soon",
        "description": "We are back at noon.",
        "start": "2026-01-10T10:30:00Z",
        "until": "2026-01-10T12:00:00Z",
    },
    "languages": ["de", "en"],
}
SETTINGS = {"language": "en", "options": OPTIONS}
VALUES = [{"value": "Oak", "meta": "wood"}]

# fmt: off
#                                             nobody cust other staff other owner other admin
TABLE = [
    # accounts
    row("POST /api/token",                      "200", {"email": "{email}", "password": "{password}"}),
    row("POST /api/token/refresh",              "200", {"refresh": "{refresh}"}),
    row("POST /api/register",                   "201", NEW_USER),
    row("POST /api/logout",                     "401 200 200 200 200 200 200 200", {"refresh": "{refresh}"}),
    row("GET /api/me",                          "401 200 200 200 200 200 200 200"),
    row("GET /api/sessions",                    "401 200 200 200 200 200 200 200"),
    row("DELETE /api/sessions/{session}",       "401 200 404 404 404 404 404 404"),
    row("POST /api/change-password",            "401 200 200 200 200 200 200 200", PASSWORDS),
    row("POST /api/forget-password",            "200", {"email": "{email}"}),
    row("POST /api/reset-password",             "200", {"token": "{reset}", "password": "another good passphrase"}),
    row("POST /api/verify-email",               "200", {"token": "{verification}"}),
    # shops
    row("GET /api/shops",                       "200"),
    row("POST /api/shops",                      "401 403 403 403 403 201 201 201", {"name": "Third"}),
    row("GET /api/shops/{shop}",                "200"),
    row("PUT /api/shops/{shop}",                "401 403 403 403 404 200 404 200", {"description": "Lamps."}),
    row("GET /api/my-shops",                    "401 403 403 200 200 200 200 200"),
    row("POST /api/approve-shop",               "401 403 403 403 403 403 403 200", {"id": "{shop}"}),
    row("POST /api/disapprove-shop",            "401 403 403 403 403 403 403 200", {"id": "{shop}"}),
    row("GET /api/new-shops",                   "401 403 403 403 403 403 403 200"),
    row("GET /api/my-staffs",                   "401 403 403 403 403 200 200 200"),
    row("GET /api/all-staffs",                  "401 403 403 403 403 403 403 200"),
    row("GET /api/users",                       "401 403 403 403 403 403 403 200"),
    row("GET /api/admin/list",                  "401 403 403 403 403 403 403 200"),
    row("GET /api/vendors/list",                "401 403 403 403 403 403 403 200"),
    row("GET /api/customers/list",              "401 403 403 403 403 403 403 200"),
    row("GET /api/staffs",                      "401 403 403 403 403 200 200 200"),
    row("POST /api/staffs",                     "401 403 403 403 403 201 404 201",
        {"email": "new@example.com", "shop_id": "{shop}"}),
    row("DELETE /api/staffs/{member}",          "401 403 403 403 403 200 404 200"),
    row("GET /api/shops/{shop}/staff",          "401 403 403 403 404 200 404 200"),
    row("POST /api/shops/{shop}/staff",         "401 403 403 403 404 201 404 201", {"email": "new@example.com"}),
    row("DELETE /api/shops/{shop}/staff/{member}", "401 403 403 403 404 200 404 200"),
    row("GET /api/shops/{shop}/invitations",    "401 403 403 403 404 200 404 200"),
    row("DELETE /api/shops/{shop}/invitations/{invited}", "401 403 403 403 404 200 404 200"),
    row("POST /api/accept-invitation",          "200",
        {"token": "{invitation}", "name": "New", "password": "{password}"}),
    # catalog
    row("GET /api/products",                    "200"),
    row("GET /api/products/search",             "200"),
    row("GET /api/products/suggest",            "200", path="/api/products/suggest?q=velmo"),
    row("GET /api/best-selling-products",       "200"),
    row("GET /api/popular-products",            "200"),
    row("POST /api/products",                   "401 403 403 201 403 201 403 201", NEW_PRODUCT),
    row("GET /api/products/{product}",          "200"),
    row("GET /api/products/{product}/similar",  "200"),
    row("PUT /api/products/{product}",          "401 403 403 200 404 200 404 200", {"price": 21}),
    row("DELETE /api/products/{product}",       "401 403 403 200 404 200 404 200"),
    row("GET /api/export-products/{shop}",      "200"),
    row("POST /api/import-products",            "401 403 403 200 403 200 403 200",
        {"shop_id": "{shop}", "csv": "{products_csv}"}),
    row("GET /api/export-variation-options/{shop}", "200"),
    row("POST /api/import-variation-options",   "401 403 403 200 403 200 403 200",
        {"shop_id": "{shop}", "csv": "{variations_csv}"}),
    row("GET /api/categories",                  "200"),
    row("POST /api/categories",                 "401 403 403 403 403 403 403 201",
        {"name": "Chairs", "type_id": "{product_type}"}),
    row("GET /api/categories/{category}",       "200"),
    row("PUT /api/categories/{category}",       "401 403 403 403 403 403 403 200", {"name": "Lights"}),
    row("DELETE /api/categories/{category}",    "401 403 403 403 403 403 403 200"),
    row("GET /api/types",                       "200"),
    row("POST /api/types",                      "401 403 403 403 403 403 403 201", {"name": "Garden"}),
    row("GET /api/types/{product_type}",        "200"),
    row("PUT /api/types/{product_type}",        "401 403 403 403 403 403 403 200", {"name": "House"}),
    row("DELETE /api/types/{product_type}",     "401 403 403 403 403 403 403 200", path="/api/types/{empty_type}"),
    row("GET /api/tags",                        "200"),
    row("POST /api/tags",                       "401 403 403 403 403 403 403 201", {"name": "New in"}),
    row("GET /api/tags/{tag}",                  "200"),
    row("PUT /api/tags/{tag}",                  "401 403 403 403 403 403 403 200", {"name": "Favorites"}),
    row("DELETE /api/tags/{tag}",               "401 403 403 403 403 403 403 200"),
    # orders
    row("GET /api/orders",                      "401 200 200 200 200 200 200 200"),
    row("POST /api/orders",                     "401 201 201 201 201 201 201 201", NEW_ORDER),
    row("GET /api/orders/{order}",              "401 200 404 200 404 200 404 200"),
    row("PUT /api/orders/{order}",              "401 403 403 200 404 200 404 200", {"order_status": "processing"}),
    row("GET /api/refunds",                     "401 200 200 200 200 200 200 200"),
    row("POST /api/refunds",                    "401 201 404 404 404 404 404 404", NEW_REFUND),
    row("GET /api/refunds/{refund}",            "401 200 404 200 404 200 404 200"),
    row("PUT /api/refunds/{refund}",            "401 403 403 403 403 200 404 200", {"status": "approved"}),
    row("POST /api/orders/payment",             "404"),
    # settings
    row("GET /api/settings",                    "200"),
    row("PUT /api/settings",                    "401 403 403 403 403 403 403 200", SETTINGS),
    row("POST /api/settings",                   "401 403 403 403 403 403 403 200", SETTINGS),
    row("GET /api/settings/1",                  "200"),
    row("PUT /api/settings/1",                  "401 403 403 403 403 403 403 200", SETTINGS),
    # reviews and questions
    row("GET /api/reviews",                     "200"),
    row("POST /api/reviews",                    "401 409 201 201 201 201 201 201",
        {"product_id": "{product}", "rating": 5}),
    row("GET /api/reviews/{review}",            "200"),
    row("DELETE /api/reviews/{review}",         "401 200 404 404 404 404 404 200"),
    row("GET /api/questions",                   "200"),
    row("POST /api/questions",                  "401 201 201 201 201 201 201 201",
        {"product_id": "{product}", "question": "Is it oak?"}),
    row("GET /api/my-questions",                "401 200 200 200 200 200 200 200"),
    row("GET /api/questions/{question}",        "200"),
    row("PUT /api/questions/{question}",        "401 403 403 200 404 200 404 200", {"answer": "It is."}),
    row("DELETE /api/questions/{question}",     "401 200 404 404 404 404 404 200"),
    # moderation
    row("GET /api/abusive_reports",             "401 403 403 403 403 403 403 200 200"),
    row("POST /api/abusive_reports",            "401 201 201 201 201 201 201 201", REPORTED),
    row("GET /api/abusive_reports/{report}",    "401 403 403 403 403 403 403 200 200"),
    row("DELETE /api/abusive_reports/{report}", "401 403 403 403 403 403 403 200 200"),
    row("POST /api/abusive_reports/accept",     "401 403 403 403 403 403 403 200 200", DECIDED),
    row("POST /api/abusive_reports/reject",     "401 403 403 403 403 403 403 200 200", DECIDED),
    row("POST /api/abusive_reports/hide",       "401 403 403 403 403 403 403 200 200", CASE),
    row("POST /api/abusive_reports/show",       "401 403 403 403 403 403 403 200 200", HIDDEN),
    row("POST /api/abusive_reports/escalate",   "401 403 403 403 403 403 403 200 200", CASE),
    row("POST /api/abusive_reports/claim",      "401 403 403 403 403 403 403 200 200", CASE),
    row("POST /api/abusive_reports/release",    "401 403 403 403 403 403 403 200 200", CASE),
    row("GET /api/report-reasons",              "200"),
    row("GET /api/decisions",                   "401 403 403 403 403 403 403 200 200"),
    row("GET /api/decisions/{decision}",        "401 403 403 403 403 403 403 200 200"),
    row("POST /api/decisions/{young_decision}/undo", "401 403 403 403 403 403 403 200 200"),
    row("POST /api/decisions/{decision}/restore", "401 403 403 403 403 403 403 200 200"),
    row("GET /api/my-reports",                  "401 200 200 200 200 200 200 200"),
    row("GET /api/notices",                     "401 200 200 200 200 200 200 200"),
    row("GET /api/notices/{notice}",            "401 200 404 404 404 404 404 404"),
    row("GET /api/appeals",                     "401 200 200 200 200 200 200 200"),
    row("POST /api/appeals",                    "401 201 404 404 404 404 404 404",
        {"notice_id": "{notice}", "message": "I bought it there."}),
    row("GET /api/appeals/{appeal}",            "401 200 404 404 404 404 404 200 200"),
    row("POST /api/appeals/{appeal}/keep",      "401 403 403 403 403 403 403 200 200", TOLD),
    row("POST /api/appeals/{appeal}/overturn",  "401 403 403 403 403 403 403 200 200", TOLD),
    row("GET /api/sanctions",                   "401 200 200 200 200 200 200 200"),
    row("POST /api/sanctions",                  "401 403 403 403 403 403 403 201 201", SANCTIONED),
    row("GET /api/sanctions/{sanction}",        "401 200 404 404 404 404 404 200 200"),
    row("DELETE /api/sanctions/{sanction}",     "401 403 403 403 403 403 403 200 200"),
    row("POST /api/sanctions/{sanction}/appeal", "401 200 404 404 404 404 404 404", APPEALED),
    row("POST /api/sanctions/{appealed_sanction}/keep", "401 403 403 403 403 403 403 200 200"),
    # addresses
    row("GET /api/addresses",                   "401 200 200 200 200 200 200 200"),
    row("POST /api/addresses",                  "401 201 201 201 201 201 201 201", NEW_ADDRESS),
    row("GET /api/addresses/{address}",         "401 200 404 404 404 404 404 404"),
    row("PUT /api/addresses/{address}",         "401 200 404 404 404 404 404 404", {"title": "Work"}),
    row("DELETE /api/addresses/{address}",      "401 200 404 404 404 404 404 404"),
    row("DELETE /api/address/{address}",        "401 200 404 404 404 404 404 404"),
    # attachments
    row("GET /api/attachments",                 "200"),
    row("POST /api/attachments",                "401 200 200 200 200 200 200 200", {"attachment[]": "{pdf}"}),
    row("GET /api/attachments/{attachment}",    "200"),
    row("PUT /api/attachments/{attachment}",    "200", {}),
    row("PATCH /api/attachments/{attachment}",  "401 200 404 404 404 404 404 200", {"alt": "A lamp"}),
    row("DELETE /api/attachments/{attachment}", "401 200 404 404 404 404 404 200"),
    row("POST /api/attachments/presign",        "401 422 422 422 422 422 422 422", {"name": "teapot.jpg"}),
    row("POST /api/attachments/finalize",       "401 404 404 404 404 404 404 404", {"upload_id": "x"}),
    row("GET /media/attachments/{media}",       "404"),  # its file does not exist
    # attributes
    row("GET /api/attributes",                  "200"),
    row("POST /api/attributes",                 "401 403 403 403 403 200 403 200",
        {"name": "Colour", "shop_id": "{shop}", "values": VALUES}),
    row("GET /api/attributes/{attribute}",      "200"),
    row("PUT /api/attributes/{attribute}",      "401 403 403 403 403 200 403 200", {"name": "Wood"}),
    row("DELETE /api/attributes/{attribute}",   "401 403 403 403 403 200 403 200"),
    row("GET /api/export-attributes/{shop}",    "200"),
    row("POST /api/import-attributes",          "401 403 403 403 403 200 403 200",
        {"shop_id": "{shop}", "csv": "{csv}"}),
    # analytics
    row("GET /api/analytics",                   "401 403 403 200 200 200 200 200"),
    row("GET /api/low-stock-products",          "401 403 403 200 200 200 200 200"),
    row("GET /api/products-stock",              "401 403 403 200 200 200 200 200"),
    row("GET /api/draft-products",              "401 403 403 200 200 200 200 200"),
    row("GET /api/category-wise-product",       "401 403 403 200 200 200 200 200"),
    row("GET /api/category-wise-product-sale",  "401 403 403 200 200 200 200 200"),
    row("GET /api/attribute-wise-product-sale", "401 403 403 200 200 200 200 200"),
    row("GET /api/top-rate-product",            "401 403 403 200 200 200 200 200"),
    row("GET /api/top-products",                "401 403 403 200 200 200 200 200"),
    row("GET /api/top-customers",               "401 403 403 200 200 200 200 200"),
    # descriptions
    row("POST /api/generate-descriptions",      "401 403 403 200 200 200 200 200", {"product_name": "Velmo lamp"}),
    row("GET /api/description-allowance",       "401 403 403 200 200 200 200 200"),
    row("GET /api/description-drafts",          "401 403 403 200 200 200 200 200"),
    row("GET /api/description-drafts/{draft}",  "401 403 403 200 404 200 404 200"),
    row("PUT /api/description-drafts/{draft}",  "401 403 403 200 404 200 404 200", {"text": "A lamp of brass."}),
    row("POST /api/description-drafts/{draft}/accept", "401 403 403 200 404 200 404 200", {"text": "Of brass."}),
    row("GET /api/description-jobs",            "401 403 403 200 200 200 200 200"),
    row("POST /api/description-jobs",           "401 403 403 201 422 201 422 201", {"product_ids": ["{product}"]}),
    row("GET /api/description-jobs/{job}",      "401 403 403 404 404 200 404 200"),
    row("POST /api/description-jobs/{job}/cancel", "401 403 403 404 404 200 404 200"),
    row("POST /api/descriptions/webhook",       "400", {"data": {"batch_id": "batch_1"}}),
    row("POST /api/description-drafts/{draft}/discard", "401 403 403 200 404 200 404 200"),
    # webhooks
    row("GET /api/webhooks",                    "401 403 403 403 403 200 200 200"),
    row("POST /api/webhooks",                   "401 403 403 403 403 201 201 201", {"url": "https://8.8.8.8/new"}),
    row("GET /api/webhooks/{webhook}",          "401 403 403 403 403 200 404 404"),
    row("PATCH /api/webhooks/{webhook}",        "401 403 403 403 403 200 404 404", {"enabled": False}),
    row("DELETE /api/webhooks/{webhook}",       "401 403 403 403 403 200 404 404"),
    row("POST /api/webhooks/{webhook}/rotate",  "401 403 403 403 403 200 404 404"),
    row("GET /api/webhooks/{webhook}/deliveries", "401 403 403 403 403 200 404 404"),
    row("GET /api/webhooks/{webhook}/deliveries/{delivery}", "401 403 403 403 403 200 404 404"),
    row("POST /api/webhooks/{webhook}/deliveries/{delivery}/redeliver", "401 403 403 403 403 200 404 404"),
    # about the service
    row("GET /api/openapi.json",                "200"),
    row("GET /api/schema",                      "200"),
    row("GET /api/docs",                        "200"),
    row("GET /metrics",                         "401 403 403 403 403 403 403 200"),
    row("GET /",                                "200"),
    row("GET /shop",                            "302"),
    row("GET /shop/",                           "200"),
    row("GET /shop/products/{product}/",        "404"),  # the page has the address of the slug
    row("GET /livez",                           "200"),
    row("GET /readyz",                          "200"),
]
# fmt: on
