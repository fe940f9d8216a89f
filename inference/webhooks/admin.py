"""Webhooks for operators: where they go, what was sent there and what became of it; sending again, and disabling."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.utils import timezone
from unfold.admin import ModelAdmin, TabularInline
from unfold.decorators import display

from inference.webhooks import redelivery, services
from inference.webhooks.models import Attempt, Delivery, DeliveryQuerySet, Endpoint

MOST_AT_ONCE = 10_000  # an action's, within the time of a request
State = Delivery.State
STATE_COLOURS = {
    State.PENDING.label: "warning",
    State.SENDING.label: "info",
    State.DELIVERED.label: "success",
    State.FAILED.label: "danger",
}


class Written:
    """What users and the server write is read here, and changed by actions alone."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Endpoint)
class EndpointAdmin(Written, ModelAdmin):
    list_display = ["public_id", "user", "address", "shown_state", "disabled_by", "last_delivery_at", "created_at"]
    list_filter = ["is_enabled", "disabled_by"]
    list_select_related = ["user"]
    search_fields = ["public_id", "url", "user__email"]
    fields = ["public_id", "user", "address", "events", "is_enabled", "disabled_by", "previous_secret_until"]
    actions = ["disable", "enable"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Endpoint]:
        endpoints: QuerySet[Endpoint] = super().get_queryset(request)
        last = Delivery.objects.filter(endpoint=OuterRef("pk")).order_by("-pk")
        return endpoints.annotate(last_delivery_at=Subquery(last.values("created_at")[:1]))

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        return "secret" not in lookup and super().lookup_allowed(lookup, value, request)

    @admin.display(description="Address", ordering="url")
    def address(self, endpoint: Endpoint) -> str:
        return endpoint.url or "(of single requests)"

    @display(description="State", label={"Enabled": "success", "Disabled": "danger"}, ordering="is_enabled")  # type: ignore[untyped-decorator]
    def shown_state(self, endpoint: Endpoint) -> str:
        return "Enabled" if endpoint.is_enabled else "Disabled"

    @admin.display(description="Last delivery", ordering="last_delivery_at")
    def last_delivery_at(self, endpoint: Any) -> Any:
        return endpoint.last_delivery_at

    @admin.action(description="Disable: send nothing there, and cancel what waits")
    def disable(self, request: HttpRequest, endpoints: QuerySet[Endpoint]) -> None:
        chosen = _chosen(request, endpoints)
        services.disable_endpoints(endpoints=chosen, by=Endpoint.DisabledBy.OPERATOR, now=timezone.now())
        self.message_user(request, f"Disabled: {len(chosen)}.")

    @admin.action(description="Enable")
    def enable(self, request: HttpRequest, endpoints: QuerySet[Endpoint]) -> None:
        chosen = _chosen(request, endpoints)
        services.enable_endpoints(endpoints=chosen, now=timezone.now())
        self.message_user(request, f"Enabled: {len(chosen)}.")


class AttemptInline(Written, TabularInline):
    model = Attempt
    fields = readonly_fields = ["number", "started_at", "duration_ms", "status", "failure"]
    verbose_name_plural = "attempts"
    hide_title = True
    extra = 0


@admin.register(Delivery)
class DeliveryAdmin(Written, ModelAdmin):
    list_display = [
        "public_id",
        "user",
        "destination",
        "shown_state",
        "attempts",
        "last_result",
        "due_at",
        "created_at",
    ]
    list_filter = ["state", "event"]
    list_select_related = ["endpoint__user"]
    search_fields = ["public_id", "destination", "endpoint__public_id", "endpoint__user__email"]
    show_full_result_count = False
    fields = [
        "public_id", "endpoint", "user", "event", "url", "state", "attempts", "due_at", "created_at", "finished_at",
        "body",
    ]  # fmt: skip
    inlines = [AttemptInline]
    actions = ["redeliver"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Delivery]:
        deliveries: DeliveryQuerySet = super().get_queryset(request).select_related("endpoint__user")
        return deliveries.with_last_attempt()

    @admin.display(description="User", ordering="endpoint__user__email")
    def user(self, delivery: Delivery) -> str:
        return delivery.endpoint.user.email

    @display(description="State", label=STATE_COLOURS, ordering="state")  # type: ignore[untyped-decorator]
    def shown_state(self, delivery: Delivery) -> str:
        return delivery.get_state_display()

    @admin.display(description="Last result")
    def last_result(self, delivery: Any) -> str:
        if delivery.last_failure is None:
            return "-"
        told = Attempt.Failure(delivery.last_failure).label if delivery.last_failure else "Arrived"
        return f"{delivery.last_status}: {told}" if delivery.last_status else told

    @admin.action(description="Send again, now")
    def redeliver(self, request: HttpRequest, deliveries: QuerySet[Delivery]) -> None:
        chosen = _chosen(request, deliveries)
        told = redelivery.redeliver_all(deliveries=chosen, now=timezone.now())
        self.message_user(request, str(told), messages.SUCCESS if told.sent == len(chosen) else messages.WARNING)


def _chosen(request: HttpRequest, rows: QuerySet[Any]) -> list[int]:
    """Their keys; none, and a message, where they are too many."""
    keys = list(rows.order_by().values_list("pk", flat=True)[: MOST_AT_ONCE + 1])
    if len(keys) <= MOST_AT_ONCE:
        return keys
    messages.error(request, f"These are more than {MOST_AT_ONCE:,}: choose fewer, by a filter or a search.")
    return []
