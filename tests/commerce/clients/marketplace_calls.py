# ruff: noqa: E501 a call is a line
"""Calls of public front ends that were written for the Laravel back end whose paths the shop serves.

Each has the file that sends it. Placeholders are names of the small world of `routes/scenario.py`.
"""

from dataclasses import dataclass
from typing import Any

SHOP = "biztechadvisors/pickbazarShop src/framework/rest/client/index.ts"
SHOP_PATHS = (
    "Believerockss/Laravel-v11.0.0-React-Next-REST-and-GraphQL-Ecommerce-with-Multivendor "
    "shop/src/framework/rest/client/api-endpoints.ts"
)
ADMIN_PATHS = "elhaddajiOtmane/pickbazar admin/rest/src/data/client/api-endpoints.ts"


def panel(name: str) -> str:
    """Return the file of an admin panel's client."""
    return f"DharmeshRanpariya/Pickbazar admin/rest/src/data/client/{name}.ts"


def older_panel(name: str) -> str:
    """Return the file of another admin panel's client, with more of the original calls."""
    return f"biztechadvisors/pickbazarAdmin src/data/client/{name}.ts"


@dataclass(frozen=True)
class Call:
    """A call: who sends it, what the front end reads from the answer, as in `data.0.name`, and its body."""

    source: str
    user: str
    operation: str
    reads: str = ""
    body: Any = None
    status: int = 200

    @property
    def method(self) -> str:
        return self.operation.partition(" ")[0]

    @property
    def path(self) -> str:
        return "/api/" + self.operation.partition(" ")[2]


PAGE = "current_page per_page total last_page first_page_url next_page_url data"
PRODUCT_CARD = (
    "data.0.id data.0.name data.0.slug data.0.price data.0.sale_price data.0.image data.0.quantity data.0.unit"
)
PRODUCT_RELATIONS = (
    "with=type;shop;categories;tags;variations.attribute.values;variation_options;"
    "variation_options.digital_file;author;manufacturer;digital_file"
)
NEW_PRODUCT = {
    "name": "Fjell lamp", "slug": "", "shop_id": "{shop}", "type_id": "{product_type}", "price": 19.9,
    "sale_price": None, "quantity": 3, "sku": "FL-1", "product_type": "simple", "status": "publish", "unit": "1 pc",
    "categories": ["{category}"], "tags": ["{tag}"], "image": None, "gallery": [], "language": "en",
    "author_id": None, "manufacturer_id": None, "is_digital": False, "is_external": False, "in_flash_sale": False,
}  # fmt: skip
NEW_ORDER = {
    "products": [{"product_id": "{product}", "order_quantity": 1, "unit_price": 9, "subtotal": 9}],
    "amount": 9, "total": 9, "paid_total": 9, "delivery_fee": 0, "sales_tax": 0, "discount": 0, "status": 1,
    "payment_gateway": "CASH_ON_DELIVERY", "customer_contact": "+353210000000", "delivery_time": "Express",
    "billing_address": {"street_address": "12 Harbour Street", "city": "Cork", "state": "", "zip": "T12", "country": "IE"},
    "shipping_address": {"street_address": "12 Harbour Street", "city": "Cork", "state": "", "zip": "T12", "country": "IE"},
    "use_wallet_points": False, "language": "en",
}  # fmt: skip
ADDRESS = {"street_address": "1 Quay", "city": "Cork", "state": "", "zip": "T12", "country": "IE"}

STOREFRONT = [
    # start
    Call(SHOP, "nobody", "GET settings?language=en", "options.siteTitle options.currency options.currencyOptions.formation "
         "options.currencyOptions.fractions options.logo options.seo options.contactDetails options.isUnderMaintenance"),
    Call(SHOP, "customer", "GET settings?language=de", "options.siteTitle translated_languages"),
    Call(SHOP, "nobody", "GET types?language=en", "0.id 0.name 0.slug"),
    Call(SHOP, "nobody", "GET types/home?language=en", "id name slug"),
    Call(SHOP, "nobody", "GET categories?searchJoin=and&language=en&limit=1000&parent=null&search=type.slug:home",
         f"{PAGE} data.0.id data.0.name data.0.slug data.0.children"),
    Call(SHOP, "nobody", "GET categories?searchJoin=and&limit=15&page=null", PAGE),
    Call(SHOP, "nobody", "GET tags?limit=10&language=en", f"{PAGE} data.0.name"),
    # products
    Call(SHOP, "nobody", "GET products?searchJoin=and&with=type;author&limit=30&language=en&search=type.slug:home;status:publish",
         f"{PAGE} {PRODUCT_CARD} data.0.type.slug data.0.ratings data.0.min_price data.0.max_price data.0.product_type"),
    Call(SHOP, "nobody", "GET products?searchJoin=and&with=type;author&search=name:lamp;status:publish", PRODUCT_CARD),
    Call(SHOP, "nobody", "GET products?searchJoin=and&with=type;author&search=type.slug:home;categories.slug:none;status:publish",
         PAGE),
    Call(SHOP, "nobody", "GET products?searchJoin=and&search=min_price:0,1000;status:publish&orderBy=min_price&sortedBy=DESC",
         PRODUCT_CARD),
    Call(SHOP, "nobody", "GET products?searchJoin=and&search=tags.slug:bestseller;status:publish&page=1", PAGE),
    Call(SHOP, "nobody", "GET products?searchJoin=and&search=shop_id:{shop};status:publish&orderBy=created_at&sortedBy=DESC",
         PRODUCT_CARD),
    Call(SHOP, "nobody", "GET products?searchJoin=and&search=author.slug:none;manufacturer.slug:none;status:publish", PRODUCT_CARD),
    Call(SHOP, "nobody", "GET products/velmo-lamp?language=en&searchJoin=and&with=categories;shop;type;variations;"
         "variations.attribute.values;variation_options;tags",
         "id name slug description price quantity shop.name shop.slug type.slug categories tags variations variation_options "
         "gallery ratings total_reviews in_stock status"),
    Call(SHOP, "nobody", "GET products/velmo-lamp?with=related_products", "related_products"),
    Call(SHOP, "nobody", "GET products/no-such-lamp?language=en", status=404),
    Call(SHOP_PATHS, "nobody", "GET popular-products?limit=10&type_slug=home&with=type;author",
         "0.id 0.name 0.slug 0.price 0.sale_price 0.image 0.quantity 0.unit 0.type.slug"),
    Call(SHOP_PATHS, "nobody", "GET best-selling-products?limit=10&type_slug=home", "0.id 0.name 0.slug 0.price"),
    # shops
    Call(SHOP, "nobody", "GET shops?search=is_active:1&limit=30", f"{PAGE} data.0.name data.0.slug data.0.logo data.0.is_active"),
    Call(SHOP, "nobody", "GET shops/corner", "id name slug description logo cover_image settings address products_count "
         "orders_count owner_id"),
    Call(SHOP, "nobody", "GET shops/none", status=404),
    Call(SHOP, "nobody", "GET near-by-shop/51.9/-8.4", status=404),
    # reviews and questions of a product
    Call(SHOP, "nobody", "GET reviews?searchJoin=and&with=user&product_id={product}&orderBy=created_at&sortedBy=desc&limit=5",
         f"{PAGE} data.0.rating data.0.comment data.0.user.name data.0.photos"),
    Call(SHOP, "nobody", "GET reviews?searchJoin=and&with=user&search=rating:5&product_id={product}", PAGE),
    Call(SHOP, "nobody", "GET reviews/{review}", "id rating comment product_id"),
    Call(SHOP, "another customer", "POST reviews", "id rating", {"product_id": "{product}", "shop_id": "{shop}", "rating": 4,
         "comment": "It glows.", "photos": []}, 201),
    Call(SHOP, "customer", "PUT reviews/{review}", body={"id": 1, "rating": 3, "comment": "It glows less."}, status=405),
    Call(SHOP, "nobody", "GET questions?searchJoin=and&product_id={product}&limit=5", f"{PAGE} data.0.question data.0.answer"),
    Call(SHOP, "nobody", "GET questions?searchJoin=and&search=question:oak&product_id={product}", PAGE),
    Call(SHOP, "customer", "POST questions", "id question", {"product_id": "{product}", "shop_id": "{shop}",
         "question": "Is it oak?"}, 201),
    Call(SHOP, "another customer", "POST abusive_reports", "id message", {"model_id": "{review}",
         "model_type": "Marvel\\Database\\Models\\Review", "message": "It is advertising."}, 201),
    Call(SHOP, "another customer", "POST abusive_reports", "id message", {"model_id": "{review}", "model_type": "review",
         "message": "It is advertising."}, 201),
    Call(SHOP, "customer", "POST feedbacks", body={"model_id": 1, "model_type": "Review", "positive": True}, status=404),
    # account
    Call(SHOP, "nobody", "POST token", "token permissions role", {"email": "{email}", "password": "{password}"}),
    Call(SHOP, "nobody", "POST token", body={"email": "{email}", "password": "wrong"}, status=401),
    Call(SHOP, "nobody", "POST register", "token permissions", {"name": "Grace", "email": "grace@example.com",
         "password": "{password}"}, 201),
    Call(SHOP, "customer", "GET me", "id name email profile address permissions"),
    Call(SHOP, "nobody", "GET me", status=401),
    Call(SHOP, "customer", "POST change-password", "success message", {"oldPassword": "{password}",
         "newPassword": "another good passphrase"}),
    Call(SHOP, "nobody", "POST forget-password", body={"email": "{email}"}),
    Call(SHOP, "nobody", "POST verify-forget-password-token", body={"token": "x", "email": "{email}"}, status=404),
    Call(SHOP, "nobody", "POST reset-password", body={"token": "{reset}", "password": "another good passphrase"}),
    Call(SHOP, "customer", "POST logout", body={}),
    Call(SHOP, "customer", "DELETE address/{address}"),
    Call(SHOP, "customer", "GET my-reports?with=user&orderBy=created_at&sortedBy=desc&limit=10", PAGE),
    Call(SHOP, "customer", "GET my-questions?with=user&orderBy=created_at&sortedBy=desc",
         f"{PAGE} data.0.question data.0.answer data.0.user.name"),
    Call(SHOP, "customer", "POST attachments", "0.id 0.original", {"attachment[]": "{pdf}"}),
    # orders
    Call(SHOP, "customer", "GET orders?with=refund&limit=10&page=1",
         f"{PAGE} data.0.tracking_number data.0.order_status data.0.total data.0.created_at data.0.products"),
    Call(SHOP, "customer", "GET orders/{tracking_number}", "id tracking_number order_status amount sales_tax delivery_fee "
         "paid_total total shipping_address billing_address products.0.name customer.name customer_contact children"),
    Call(SHOP, "another customer", "GET orders/{tracking_number}", status=404),
    Call(SHOP, "customer", "POST orders", "id tracking_number order_status total", NEW_ORDER, 201),
    Call(SHOP, "nobody", "POST orders", body=NEW_ORDER, status=401),
    Call(SHOP, "customer", "GET refunds?limit=10", f"{PAGE} data.0.amount data.0.status data.0.reason"),
    Call(SHOP, "customer", "POST refunds", "id status", {"order_id": "{another_order}", "amount": 2, "reason": "Scratched"}, 201),
    Call(SHOP, "customer", "POST orders/payment", body={"tracking_number": "x"}, status=404),
    Call(SHOP, "customer", "POST orders/checkout/verify", body={"amount": 9, "products": []}, status=404),
    Call(SHOP, "customer", "GET payment-intent?tracking_number=x", status=404),
    # what the shop does not have
    Call(SHOP, "nobody", "GET coupons?limit=15&language=en", status=404),
    Call(SHOP, "nobody", "POST coupons/verify", body={"code": "TEA"}, status=404),
    Call(SHOP, "customer", "GET my-wishlists?with=shop&orderBy=created_at&sortedBy=desc", status=404),
    Call(SHOP, "customer", "POST wishlists/toggle", body={"product_id": 1}, status=404),
    Call(SHOP, "customer", "GET wishlists/in_wishlist/1", status=404),
    Call(SHOP, "nobody", "GET authors?limit=15", status=404),
    Call(SHOP, "nobody", "GET top-authors?limit=10", status=404),
    Call(SHOP, "nobody", "GET manufacturers?limit=15", status=404),
    Call(SHOP, "nobody", "GET top-manufacturers?limit=10", status=404),
    Call(SHOP, "nobody", "GET store-notices?searchJoin=and", status=404),
    Call(SHOP, "customer", "GET cards", status=404),
    Call(SHOP, "customer", "GET downloads?limit=15", status=404),
    Call(SHOP, "nobody", "POST contact-us", body={"name": "Grace", "subject": "Lamps"}, status=404),
    Call(SHOP, "nobody", "POST subscribe-to-newsletter", body={"email": "grace@example.com"}, status=404),
    Call(SHOP, "nobody", "POST social-login-token", body={"provider": "google"}, status=404),
    Call(SHOP, "nobody", "POST send-otp-code", body={"phone_number": "1"}, status=404),
    Call(SHOP_PATHS, "nobody", "GET faqs", status=404),
    Call(SHOP_PATHS, "nobody", "GET flash-sale", status=404),
    Call(SHOP_PATHS, "nobody", "GET refund-policies", status=404),
    Call(SHOP_PATHS, "nobody", "GET terms-and-conditions", status=404),
]  # fmt: skip

PANEL = [
    # start
    Call(older_panel("user"), "super admin", "GET me", "id name email permissions profile shops"),
    Call(older_panel("user"), "owner", "GET me", "permissions shops.0.id shops.0.slug managed_shop"),
    Call(older_panel("user"), "staff", "GET me", "managed_shop.id permissions"),
    Call(older_panel("settings"), "super admin", "GET settings?language=en", "options.siteTitle options.maintenance"),
    Call(panel("settings"), "super admin", "POST settings", "options.siteTitle options.deliveryTime", {"language": "en", "options": {
        "siteTitle": "Corner", "deliveryTime": [{"title": "Express", "description": "90 min"}], "useOtp": False,
        "currencyOptions": {"formation": "en-US", "fractions": 2}, "minimumOrderAmount": 0, "logo": None,
        "seo": {"metaTitle": "", "ogImage": None}, "contactDetails": {"socials": [], "contact": "", "website": ""}}}),
    Call(older_panel("settings"), "owner", "POST settings", body={"language": "en", "options": {}}, status=403),
    # dashboard
    Call(panel("dashboard"), "super admin", "GET analytics", "totalRevenue totalRefunds totalShops totalVendors todaysRevenue "
         "totalOrders newCustomers totalYearSaleByMonth.0.month totalYearSaleByMonth.11.total todayTotalOrderByStatus.pending "
         "weeklyTotalOrderByStatus monthlyTotalOrderByStatus yearlyTotalOrderByStatus"),
    Call(panel("dashboard"), "owner", "GET analytics", "totalRevenue totalOrders"),
    Call(panel("dashboard"), "customer", "GET analytics", status=403),
    Call(panel("product"), "owner", "GET low-stock-products?searchJoin=and&with=type;shop&limit=10&search=shop_id:{shop}&language=en"),
    Call(panel("product"), "super admin", "GET low-stock-products?searchJoin=and&with=type;shop&limit=10&language=en"),
    Call(panel("product"), "super admin", "GET category-wise-product?limit=15&language=en"),
    Call(panel("product"), "super admin", "GET category-wise-product-sale?limit=15&language=en"),
    Call(panel("product"), "super admin", "GET top-rate-product?searchJoin=and&limit=10&language=en&search=",
         "0.id 0.name 0.actual_rating 0.rating_count 0.type_slug 0.image"),
    # products
    Call(older_panel("product"), "owner", "GET products?searchJoin=and&with=shop;type&limit=20&page=1&language=en"
         "&orderBy=created_at&sortedBy=DESC&search=shop_id:{shop}",
         f"{PAGE} {PRODUCT_CARD} data.0.status data.0.shop.name data.0.type.name"),
    Call(older_panel("product"), "owner", "GET products?searchJoin=and&with=shop;type&shop_id={shop}&search=name:lamp;shop_id:{shop}",
         PRODUCT_CARD),
    Call(older_panel("product"), "super admin", f"GET products/velmo-lamp?language=en&{PRODUCT_RELATIONS}",
         "id type.id shop.id categories tags variations variation_options sku quantity unit width height length"),
    Call(older_panel("curd-factory"), "owner", "POST products", "id slug", NEW_PRODUCT, 201),
    Call(older_panel("curd-factory"), "owner", "PUT products/{product}", "id price", {"price": 21, "name": "Velmo lamp",
         "type_id": "{product_type}", "categories": ["{category}"], "tags": [], "variations": [], "shop_id": "{shop}"}),
    Call(older_panel("curd-factory"), "owner", "DELETE products/{product}"),
    Call(older_panel("curd-factory"), "other owner", "DELETE products/{product}", status=404),
    Call(older_panel("product"), "owner", "POST generate-descriptions", body={"prompt": "Velmo lamp"}, status=500),
    Call(ADMIN_PATHS, "super admin", "GET popular-products?searchJoin=and&with=type;shop&limit=10", "0.id 0.type.name 0.shop.name"),
    # categories, types, tags, attributes
    Call(older_panel("category"), "super admin", "GET categories?searchJoin=and&search=name:Lamps&limit=20&page=1&language=en"
         "&orderBy=created_at&sortedBy=desc&self=null", f"{PAGE} data.0.id data.0.name"),
    Call(older_panel("curd-factory"), "super admin", "GET categories/lamps?language=en", "id name slug type_id"),
    Call(older_panel("curd-factory"), "super admin", "POST categories", "id slug", {"name": "Shades", "type_id": "{product_type}",
         "parent": "{category}", "details": "", "image": None, "icon": "", "language": "en"}, 201),
    Call(older_panel("curd-factory"), "super admin", "PUT categories/{category}", "id name", {"name": "All lamps",
         "type_id": "{product_type}", "details": "", "icon": "", "image": None}),
    Call(older_panel("type"), "super admin", "GET types?name=&language=en&orderBy=created_at&sortedBy=DESC", "0.id 0.name"),
    Call(older_panel("curd-factory"), "super admin", "POST types", "id slug", {"name": "Светильники", "language": "en",
         "icon": "", "settings": {"layoutType": "classic"}, "banners": []}, 201),
    Call(older_panel("curd-factory"), "super admin", "PUT types/{product_type}", "id name", {"name": "House"}),
    Call(older_panel("curd-factory"), "super admin", "DELETE types/{empty_type}"),
    Call(older_panel("tag"), "super admin", "GET tags?searchJoin=and&search=name:best&limit=10&language=en", f"{PAGE} data.0.name"),
    Call(older_panel("curd-factory"), "super admin", "POST tags", "id slug", {"name": "New", "details": "", "image": None,
         "icon": "", "language": "en"}, 201),
    Call(older_panel("curd-factory"), "super admin", "DELETE tags/{tag}"),
    Call(older_panel("attribute"), "owner", "GET attributes?searchJoin=and&language=en&orderBy=created_at&sortedBy=DESC"
         "&search=shop_id:{shop}", "0.id 0.name 0.slug 0.values.0.value 0.values.0.meta"),
    Call(older_panel("curd-factory"), "owner", "GET attributes/material?language=en", "id name values.0.id shop_id"),
    Call(older_panel("curd-factory"), "owner", "POST attributes", "id slug", {"name": "Größe", "shop_id": "{shop}", "language": "en",
         "values": [{"value": "L", "meta": ""}]}),
    Call(older_panel("curd-factory"), "owner", "PUT attributes/{attribute}", "id values.0.id", {"name": "Wood", "shop_id": "{shop}",
         "values": [{"id": None, "value": "Ash", "meta": ""}]}),
    Call(older_panel("curd-factory"), "owner", "DELETE attributes/{attribute}"),
    Call(ADMIN_PATHS, "owner", "GET export-attributes/{shop}"),
    # shops and staff
    Call(panel("shop"), "super admin", "GET shops?searchJoin=and&search=name:Corner&limit=10&page=1&orderBy=created_at&sortedBy=desc",
         f"{PAGE} data.0.name data.0.is_active data.0.products_count data.0.orders_count"),
    Call(panel("shop"), "owner", "GET shops/corner", "id name slug owner_id settings"),
    Call(panel("curd-factory"), "owner", "POST shops", "id slug", {"name": "Дом", "description": "", "settings": {}, "address": {},
         "balance": {"payment_info": {}}}, 201),
    Call(panel("curd-factory"), "owner", "PUT shops/{shop}", "id description", {"name": "Corner", "description": "Lamps.", "settings":
         {"contact": "", "socials": []}, "address": {}, "logo": None, "cover_image": None}),
    Call(ADMIN_PATHS, "super admin", "POST approve-shop", "id is_active", {"id": "{shop}", "admin_commission_rate": 10}),
    Call(ADMIN_PATHS, "super admin", "POST disapprove-shop", "id is_active", {"id": "{shop}"}),
    Call(ADMIN_PATHS, "owner", "GET my-shops", "0.id 0.name 0.slug 0.is_active 0.logo"),
    Call(ADMIN_PATHS, "owner", "GET staffs?shop_id={shop}&orderBy=created_at&sortedBy=desc&page=1",
         f"{PAGE} data.0.id data.0.name data.0.email data.0.is_active"),
    Call(ADMIN_PATHS, "owner", "POST staffs", "id email", {"email": "ada@example.com", "name": "Ada",
         "password": "{password}", "shop_id": "{shop}"}, 201),
    Call(ADMIN_PATHS, "owner", "DELETE staffs/{member}"),
    # orders and refunds
    Call(panel("order"), "owner", "GET orders?searchJoin=and&limit=20&page=1&orderBy=created_at&sortedBy=desc&shop_id={shop}&language=en",
         f"{PAGE} data.0.tracking_number data.0.order_status data.0.total data.0.customer.name"),
    Call(panel("order"), "super admin", "GET orders?searchJoin=and&search=tracking_number:{tracking_number}&limit=20", PAGE),
    Call(panel("order"), "owner", "GET orders/{order}?language=en", "id products.0.name products.0.pivot.order_quantity "
         "customer.name shipping_address order_status"),
    Call(panel("curd-factory"), "owner", "PUT orders/{order}", "id order_status", {"order_status": "order-processing"}, 422),
    Call(panel("curd-factory"), "owner", "PUT orders/{order}", "id order_status", {"order_status": "processing"}),
    Call(panel("refund"), "owner", "GET refunds?searchJoin=and&limit=10&with=order;customer&shop_id={shop}",
         f"{PAGE} data.0.amount data.0.status data.0.order.tracking_number data.0.customer.name"),
    Call(panel("refund"), "owner", "GET refunds/{refund}?with=order;customer", "id amount status reason order.id"),
    Call(panel("curd-factory"), "owner", "PUT refunds/{refund}", "id status", {"status": "approved"}),
    # reviews, questions, reports
    Call(panel("review"), "super admin", "GET reviews?searchJoin=and&with=product;user&limit=10&page=1&search=shop_id:{shop}",
         f"{PAGE} data.0.product.name data.0.user.name data.0.abusive_reports_count"),
    Call(panel("review"), "super admin", "GET reviews/{review}?with=abusive_reports.user;product;user",
         "abusive_reports product.name user.name"),
    Call(panel("curd-factory"), "super admin", "DELETE reviews/{review}"),
    Call(panel("review"), "super admin", "POST abusive_reports/reject", "id", {"model_id": "{review}",
         "model_type": "Marvel\\Database\\Models\\Review"}),
    Call(panel("question"), "owner", "GET questions?searchJoin=and&with=product;user&search=shop_id:{shop}&limit=10",
         f"{PAGE} data.0.question data.0.product.name data.0.user.name"),
    Call(panel("question"), "owner", "GET questions/{question}?with=product;user", "question product.name"),
    Call(panel("curd-factory"), "owner", "PUT questions/{question}", "id answer", {"question": "Is it?", "answer": "It is."}),
    Call(panel("curd-factory"), "super admin", "DELETE questions/{question}"),
    Call(ADMIN_PATHS, "super admin", "GET abusive_reports?limit=15", f"{PAGE} data.0.message data.0.model_type"),
    # files
    Call(older_panel("upload"), "owner", "POST attachments", "0.id 0.original", {"attachment[]": "{pdf}"}),
    Call(ADMIN_PATHS, "owner", "GET attachments?page=1&limit=15", "data.0.id current_page per_page total"),
    Call(older_panel("import"), "owner", "POST import-attributes", "attributes values", {"csv": "{csv}", "shop_id": "{shop}"}),
    Call(older_panel("import"), "owner", "POST import-products", "created changed",
         {"csv": "{products_csv}", "shop_id": "{shop}"}),
    Call(older_panel("import"), "owner", "POST import-variation-options", "created changed",
         {"csv": "{variations_csv}", "shop_id": "{shop}"}),
    Call(ADMIN_PATHS, "nobody", "GET export-products/{shop}"),
    Call(ADMIN_PATHS, "nobody", "GET export-variation-options/{shop}"),
    # what the shop does not have
    Call(panel("coupon"), "super admin", "GET coupons?searchJoin=and&limit=20&language=en", status=404),
    Call(panel("shipping"), "super admin", "GET shippings?name=&orderBy=created_at", status=404),
    Call(panel("tax"), "super admin", "GET taxes?name=&orderBy=created_at", status=404),
    Call(panel("withdraw"), "owner", "GET withdraws?searchJoin=and&limit=10&shop_id={shop}", status=404),
    Call(panel("author"), "super admin", "GET authors?searchJoin=and&limit=10", status=404),
    Call(panel("manufacturer"), "super admin", "GET manufacturers?searchJoin=and&limit=10", status=404),
    Call(panel("store-notice"), "super admin", "GET store-notices?searchJoin=and&limit=10", status=404),
    Call(panel("conversations"), "owner", "GET conversations?searchJoin=and", status=404),
    Call(panel("faqs"), "super admin", "GET faqs?searchJoin=and", status=404),
    Call(ADMIN_PATHS, "super admin", "GET order-status?language=en", status=404),
    # lists of the panel
    Call(panel("product"), "owner", "GET products-stock?searchJoin=and&shop_id={shop}&with=shop&search=status:publish;name:lamp", PAGE),
    Call(panel("product"), "owner", "GET draft-products?searchJoin=and&user_id=1&shop_id={shop}&status=draft&search=status:draft", PAGE),
    Call(panel("shop"), "super admin", "GET new-shops?searchJoin=and&is_active=false&limit=10&search=is_active:false", PAGE),
    Call(panel("user"), "super admin", "GET users?searchJoin=and&with=wallet&limit=20&search=name:",
         f"{PAGE} data.0.id data.0.name data.0.email data.0.is_active data.0.permissions.0.name"),
    Call(panel("user"), "super admin", "GET admin/list?searchJoin=and&with=wallet;permissions;profile",
         f"{PAGE} data.0.email data.0.permissions.0.name"),
    Call(panel("user"), "super admin", "GET vendors/list?searchJoin=and&with=wallet;permissions;profile&is_active=true",
         f"{PAGE} data.0.email"),
    Call(panel("user"), "super admin", "GET customers/list?searchJoin=and&with=wallet", f"{PAGE} data.0.email"),
    Call(panel("user"), "owner", "GET my-staffs?searchJoin=and&shop_id={shop}&search=is_active:true", f"{PAGE} data.0.email"),
    Call(panel("user"), "super admin", "GET all-staffs?searchJoin=and&search=is_active:true", f"{PAGE} data.0.email"),
]  # fmt: skip
