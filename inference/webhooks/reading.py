"""What a user may read: their own endpoints and deliveries. Another's is 404, as what is not there."""

from inference.webhooks.models import Delivery, Endpoint
from shared.accounts.models import User
from shared.api.errors import ApiError


def list_endpoints(*, user: User) -> list[Endpoint]:
    """Newest first."""
    return list(Endpoint.objects.for_user(user))


def find_endpoint(*, user: User, endpoint_id: str) -> Endpoint:
    """Raises ApiError 404."""
    endpoint = Endpoint.objects.for_user(user).filter(public_id=endpoint_id).first()
    if endpoint is None:
        raise ApiError(404, f"You have no webhook {endpoint_id[:40]!r}.")
    return endpoint


def list_deliveries(*, user: User, endpoint_id: str, state: str, after: str, limit: int) -> list[Delivery]:
    """Newest first, those after the one with this id. state: "" for all. Raises ApiError 404, 400 for an unknown
    `after`."""
    endpoint = find_endpoint(user=user, endpoint_id=endpoint_id)
    deliveries = endpoint.deliveries.all()
    if after:
        last = deliveries.filter(public_id=after).first()
        if last is None:
            raise ApiError(400, "`after` is no delivery of this webhook.", details={"field": "after"})
        deliveries = deliveries.filter(pk__lt=last.pk)
    return list((deliveries.filter(state=state) if state else deliveries)[:limit])


def find_delivery(*, user: User, endpoint_id: str, delivery_id: str) -> Delivery:
    """Raises ApiError 404."""
    own = Delivery.objects.for_user(user).filter(endpoint__public_id=endpoint_id, public_id=delivery_id)
    delivery = own.prefetch_related("ledger").first()
    if delivery is None:
        raise ApiError(404, f"This webhook has no delivery {delivery_id[:40]!r}.")
    return delivery
