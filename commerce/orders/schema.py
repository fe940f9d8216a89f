"""OpenAPI texts of the routes of orders and refunds."""

from drf_spectacular.utils import extend_schema, extend_schema_view

ORDER_TAGS = ["Orders"]
REFUND_TAGS = ["Refunds"]

describe_orders = extend_schema_view(
    list=extend_schema(
        operation_id="orders",
        tags=ORDER_TAGS,
        summary="List orders",
        description="Returns a page of the orders that you placed, newest first. Each has a child for every shop that "
        "delivers. Super admins get the orders of all customers. With `shop_id`, the owner and the staff of that shop "
        "get the children that it delivers. Any signed-in user may call this.",
    ),
    create=extend_schema(
        operation_id="place_order",
        tags=ORDER_TAGS,
        summary="Place an order",
        description="Places an order at current prices and returns it with a child for every shop. The server "
        "computes prices, tax and delivery fee, and takes the products from stock, all or none. Any signed-in user "
        "may call this. Returns 422 with the position of the line, as in `products.1`, if a product is not for sale "
        "or not in stock in this quantity, and 422 for products in several currencies. Send an `Idempotency-Key` to "
        "place the order once.",
    ),
    retrieve=extend_schema(
        operation_id="order",
        tags=ORDER_TAGS,
        summary="Get an order",
        description="Returns one order, found by its id or tracking number. The customer, the owner and the staff of "
        "its shop and super admins may call this; others get 404.",
    ),
    update=extend_schema(
        operation_id="change_order_status",
        tags=ORDER_TAGS,
        summary="Change the status of an order",
        description="Sets the status of one shop's order and returns it. The status of the customer's whole order "
        "follows from its children. An order that is cancelled or failed returns its products to stock. The owner "
        "and the staff of the shop and super admins may call this. Returns 422 for a whole order and for a status "
        "that cannot follow the present one; the message lists those that can.",
    ),
)

describe_refunds = extend_schema_view(
    list=extend_schema(
        operation_id="refunds",
        tags=REFUND_TAGS,
        summary="List refunds",
        description="Returns a page of the refunds that you requested or that were requested from shops that you own "
        "or work in, newest first. Super admins get all refunds. Any signed-in user may call this.",
    ),
    create=extend_schema(
        operation_id="request_refund",
        tags=REFUND_TAGS,
        summary="Request a refund",
        description="Requests a refund of an order that you placed and returns the request. For one shop's order the "
        "owner of the shop decides, for a whole order the platform. Returns 404 for an order of another customer, 409 "
        "while another request for the order is open, and 422 for more than can still be refunded.",
    ),
    retrieve=extend_schema(
        operation_id="refund",
        tags=REFUND_TAGS,
        summary="Get a refund",
        description="Returns one refund. Its customer, the owner and the staff of its shop and super admins may call "
        "this; others get 404.",
    ),
    update=extend_schema(
        operation_id="decide_refund",
        tags=REFUND_TAGS,
        summary="Approve or reject a refund",
        description="Decides a requested refund and returns it. The owner of the shop decides refunds of its orders, "
        "super admins all refunds; others get 403 or 404. When the whole payment of an order is refunded, the order "
        "and its children become `refunded` and their products return to stock. Returns 422 if the refund is decided "
        "already or if less than its amount is left.",
    ),
)
