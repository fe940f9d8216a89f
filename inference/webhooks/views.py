"""Views of /webhooks: a user's endpoints, and the deliveries to them."""

from asgiref.sync import sync_to_async
from django.utils import timezone
from msgspec import UNSET

from inference.access.operations import OperationCall, by_method, operation
from inference.protocol.native.webhooks import (
    DeliveriesQuery,
    WebhookCreateRequest,
    WebhookDeleted,
    WebhookDelivery,
    WebhookDeliveryDetail,
    WebhookDeliveryList,
    WebhookEndpoint,
    WebhookEndpointList,
    WebhookEndpointWithSecret,
    WebhookUpdateRequest,
)
from inference.webhooks import schema
from inference.webhooks.serializers import (
    serialize_delivery,
    serialize_delivery_detail,
    serialize_endpoint,
    serialize_endpoint_with_secret,
)
from shared.accounts.roles import Permission
from shared.webhooks import deliveries, services
from shared.webhooks.models import Endpoint

PERMISSION = Permission.RUN_INFERENCE


@operation("GET", docs=schema.LIST_WEBHOOKS, permission=PERMISSION, response=WebhookEndpointList)
async def list_endpoints(call: OperationCall[None]) -> WebhookEndpointList:
    own = Endpoint.objects.for_user(call.caller.user)
    return WebhookEndpointList([serialize_endpoint(endpoint) async for endpoint in own])


@operation(
    "POST",
    docs=schema.CREATE_WEBHOOK,
    permission=PERMISSION,
    body=WebhookCreateRequest,
    response=WebhookEndpointWithSecret,
)
async def create_endpoint(call: OperationCall[WebhookCreateRequest]) -> WebhookEndpointWithSecret:
    issued = await sync_to_async(services.create_endpoint)(
        user=call.caller.user,
        url=call.body.url,
        events=call.body.events,
        is_enabled=call.body.enabled,
        now=timezone.now(),
    )
    return serialize_endpoint_with_secret(issued)


@operation("GET", docs=schema.READ_WEBHOOK, permission=PERMISSION, response=WebhookEndpoint)
async def read_endpoint(call: OperationCall[None], webhook_id: str) -> WebhookEndpoint:
    return serialize_endpoint(
        await sync_to_async(services.find_endpoint)(user=call.caller.user, endpoint_id=webhook_id)
    )


@operation(
    "PATCH", docs=schema.UPDATE_WEBHOOK, permission=PERMISSION, body=WebhookUpdateRequest, response=WebhookEndpoint
)
async def change_endpoint(call: OperationCall[WebhookUpdateRequest], webhook_id: str) -> WebhookEndpoint:
    body = call.body
    endpoint = await sync_to_async(services.change_endpoint)(
        user=call.caller.user,
        endpoint_id=webhook_id,
        url=None if body.url is UNSET else body.url,
        events=None if body.events is UNSET else body.events,
        is_enabled=None if body.enabled is UNSET else body.enabled,
        now=timezone.now(),
    )
    return serialize_endpoint(endpoint)


@operation("DELETE", docs=schema.DELETE_WEBHOOK, permission=PERMISSION, response=WebhookDeleted)
async def delete_endpoint(call: OperationCall[None], webhook_id: str) -> WebhookDeleted:
    await sync_to_async(services.delete_endpoint)(user=call.caller.user, endpoint_id=webhook_id)
    return WebhookDeleted(webhook_id, True)


@operation("POST", docs=schema.ROTATE_SECRET, permission=PERMISSION, response=WebhookEndpointWithSecret)
async def rotate_secret(call: OperationCall[None], webhook_id: str) -> WebhookEndpointWithSecret:
    issued = await sync_to_async(services.rotate_secret)(
        user=call.caller.user, endpoint_id=webhook_id, now=timezone.now()
    )
    return serialize_endpoint_with_secret(issued)


@operation(
    "GET",
    docs=schema.LIST_DELIVERIES,
    permission=PERMISSION,
    query=DeliveriesQuery,
    response=WebhookDeliveryList,
)
async def list_deliveries(call: OperationCall[None], webhook_id: str) -> WebhookDeliveryList:
    query: DeliveriesQuery = call.query
    found = await sync_to_async(deliveries.list_deliveries)(
        user=call.caller.user,
        endpoint_id=webhook_id,
        state="" if query.state is UNSET else query.state,
        after=query.after,
        limit=query.limit + 1,
    )
    page = [serialize_delivery(delivery) for delivery in found[: query.limit]]
    return WebhookDeliveryList(page, page[-1].id if len(found) > query.limit else None)


@operation("GET", docs=schema.READ_DELIVERY, permission=PERMISSION, response=WebhookDeliveryDetail)
async def read_delivery(call: OperationCall[None], webhook_id: str, delivery_id: str) -> WebhookDeliveryDetail:
    return await sync_to_async(_read_delivery)(call, webhook_id, delivery_id)


@operation("POST", docs=schema.REDELIVER, permission=PERMISSION, response=WebhookDelivery)
async def redeliver(call: OperationCall[None], webhook_id: str, delivery_id: str) -> WebhookDelivery:
    delivery = await sync_to_async(deliveries.redeliver_own)(
        user=call.caller.user, endpoint_id=webhook_id, delivery_id=delivery_id, now=timezone.now()
    )
    return serialize_delivery(delivery)


endpoints = by_method(GET=list_endpoints, POST=create_endpoint)
endpoint = by_method(GET=read_endpoint, PATCH=change_endpoint, DELETE=delete_endpoint)


def _read_delivery(call: OperationCall[None], webhook_id: str, delivery_id: str) -> WebhookDeliveryDetail:
    delivery = deliveries.find_delivery(user=call.caller.user, endpoint_id=webhook_id, delivery_id=delivery_id)
    return serialize_delivery_detail(delivery)
