"""Routes of webhooks: a user's own endpoints, and what was sent to them."""

from asgiref.sync import sync_to_async
from django.utils import timezone
from msgspec import UNSET

from inference.access.operations import Call, by_method, operation
from inference.protocol import webhooks as wire
from inference.webhooks import reading, redelivery, services
from inference.webhooks.serializers import delivery_form, detail_form, endpoint_form, issued_form
from shared.accounts.roles import Permission

MAY = Permission.RUN_INFERENCE


@operation("GET", summary="List your webhooks", permission=MAY, answer=wire.EndpointList)
async def list_endpoints(call: Call[None]) -> wire.EndpointList:
    """With the default one, once you have given a `webhook_url`."""
    endpoints = await sync_to_async(reading.list_endpoints)(user=call.caller.user)
    return wire.EndpointList([endpoint_form(endpoint) for endpoint in endpoints])


@operation("POST", summary="Make a webhook", permission=MAY, body=wire.EndpointBody, answer=wire.IssuedEndpoint)
async def make_endpoint(call: Call[wire.EndpointBody]) -> wire.IssuedEndpoint:
    """Its secret is in this answer, and in no other."""
    issued = await sync_to_async(services.create_endpoint)(
        user=call.caller.user,
        url=call.body.url,
        events=call.body.events,
        is_enabled=call.body.enabled,
        now=timezone.now(),
    )
    return issued_form(issued)


@operation("GET", summary="One webhook", permission=MAY, answer=wire.Endpoint)
async def read_endpoint(call: Call[None], webhook_id: str) -> wire.Endpoint:
    """Without its secret."""
    return endpoint_form(await sync_to_async(reading.find_endpoint)(user=call.caller.user, endpoint_id=webhook_id))


@operation("PATCH", summary="Change a webhook", permission=MAY, body=wire.EndpointChanges, answer=wire.Endpoint)
async def change_endpoint(call: Call[wire.EndpointChanges], webhook_id: str) -> wire.Endpoint:
    """What waits goes to the new address. Disabling it cancels what waits."""
    body = call.body
    endpoint = await sync_to_async(services.change_endpoint)(
        user=call.caller.user,
        endpoint_id=webhook_id,
        url=None if body.url is UNSET else body.url,
        events=None if body.events is UNSET else body.events,
        is_enabled=None if body.enabled is UNSET else body.enabled,
        now=timezone.now(),
    )
    return endpoint_form(endpoint)


@operation("DELETE", summary="Delete a webhook", permission=MAY, answer=wire.Deleted)
async def delete_endpoint(call: Call[None], webhook_id: str) -> wire.Deleted:
    """With its deliveries; what waits is not sent."""
    await sync_to_async(services.delete_endpoint)(user=call.caller.user, endpoint_id=webhook_id)
    return wire.Deleted(webhook_id, True)


@operation("POST", summary="Rotate a webhook's secret", permission=MAY, answer=wire.IssuedEndpoint)
async def rotate_secret(call: Call[None], webhook_id: str) -> wire.IssuedEndpoint:
    """The new one is in this answer, and in no other. The one before it signs as well for 24 hours."""
    issued = await sync_to_async(services.rotate_secret)(
        user=call.caller.user, endpoint_id=webhook_id, now=timezone.now()
    )
    return issued_form(issued)


@operation(
    "GET",
    summary="What was sent to a webhook",
    permission=MAY,
    query=wire.DeliveriesQuery,
    answer=wire.DeliveryList,
)
async def list_deliveries(call: Call[None], webhook_id: str) -> wire.DeliveryList:
    """Kept for seven days after their end."""
    query: wire.DeliveriesQuery = call.query
    deliveries = await sync_to_async(reading.list_deliveries)(
        user=call.caller.user,
        endpoint_id=webhook_id,
        state="" if query.state is UNSET else query.state,
        after=query.after,
        limit=query.limit + 1,
    )
    page = [delivery_form(delivery) for delivery in deliveries[: query.limit]]
    return wire.DeliveryList(page, page[-1].id if len(deliveries) > query.limit else None)


@operation("GET", summary="One delivery", permission=MAY, answer=wire.DeliveryDetail)
async def read_delivery(call: Call[None], webhook_id: str, delivery_id: str) -> wire.DeliveryDetail:
    """With its attempts. What the receiver answered is not kept."""
    return await sync_to_async(_detail)(call, webhook_id, delivery_id)


@operation("POST", summary="Send a delivery again", permission=MAY, answer=wire.Delivery)
async def redeliver(call: Call[None], webhook_id: str, delivery_id: str) -> wire.Delivery:
    """Now, with the same `webhook-id` and body, and by the whole schedule where that fails."""
    delivery = await sync_to_async(redelivery.redeliver_own)(
        user=call.caller.user, endpoint_id=webhook_id, delivery_id=delivery_id, now=timezone.now()
    )
    return delivery_form(delivery)


endpoints = by_method(GET=list_endpoints, POST=make_endpoint)
endpoint = by_method(GET=read_endpoint, PATCH=change_endpoint, DELETE=delete_endpoint)


def _detail(call: Call[None], webhook_id: str, delivery_id: str) -> wire.DeliveryDetail:
    found = reading.find_delivery(user=call.caller.user, endpoint_id=webhook_id, delivery_id=delivery_id)
    return detail_form(found)
