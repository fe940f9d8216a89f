"""Admin of webhook endpoints and deliveries: read them, disable and enable endpoints, redeliver."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.utils import timezone
from unfold.admin import ModelAdmin, TabularInline
from unfold.decorators import display

from shared.api.admin.base import ReadOnlyAdminMixin
from shared.webhooks import services
from shared.webhooks.deliveries import redeliver_all
from shared.webhooks.models import Attempt, Delivery, DeliveryQuerySet, DeliveryState, Endpoint

MAX_ACTION_ROWS = 10_000  # takes less than the request timeout
STATE_COLORS = {
    DeliveryState.PENDING.label: "warning",
    DeliveryState.SENDING.label: "info",
    DeliveryState.DELIVERED.label: "success",
    DeliveryState.FAILED.label: "danger",
}


@admin.register(Endpoint)
class EndpointAdmin(ReadOnlyAdminMixin, ModelAdmin):
    """Admin of endpoints. Secrets are neither shown nor searchable."""

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

    @admin.display(description="URL", ordering="url")
    def address(self, endpoint: Endpoint) -> str:
        return endpoint.url or "(webhook_url of single requests)"

    @display(description="State", label={"Enabled": "success", "Disabled": "danger"}, ordering="is_enabled")  # type: ignore[untyped-decorator]
    def shown_state(self, endpoint: Endpoint) -> str:
        return "Enabled" if endpoint.is_enabled else "Disabled"

    @admin.display(description="Last delivery", ordering="last_delivery_at")
    def last_delivery_at(self, endpoint: Any) -> Any:
        return endpoint.last_delivery_at

    @admin.action(description="Disable selected webhooks and cancel pending deliveries")
    def disable(self, request: HttpRequest, endpoints: QuerySet[Endpoint]) -> None:
        keys = _selected_keys(request, endpoints)
        services.disable_endpoints(endpoints=keys, by=Endpoint.DisabledBy.OPERATOR, now=timezone.now())
        self.message_user(request, f"Disabled: {len(keys)}.")

    @admin.action(description="Enable selected webhooks")
    def enable(self, request: HttpRequest, endpoints: QuerySet[Endpoint]) -> None:
        keys = _selected_keys(request, endpoints)
        services.enable_endpoints(endpoints=keys, now=timezone.now())
        self.message_user(request, f"Enabled: {len(keys)}.")


class AttemptInline(ReadOnlyAdminMixin, TabularInline):
    """Table of a delivery's attempts."""

    model = Attempt
    fields = readonly_fields = ["number", "started_at", "duration_ms", "status", "failure"]
    verbose_name_plural = "attempts"
    hide_title = True
    extra = 0


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdminMixin, ModelAdmin):
    """Admin of deliveries, with their attempts."""

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

    @display(description="State", label=STATE_COLORS, ordering="state")  # type: ignore[untyped-decorator]
    def shown_state(self, delivery: Delivery) -> str:
        return delivery.get_state_display()

    @admin.display(description="Last result")
    def last_result(self, delivery: Any) -> str:
        if delivery.last_failure is None:
            return "-"
        result = Attempt.Failure(delivery.last_failure).label if delivery.last_failure else "Delivered"
        return f"{delivery.last_status}: {result}" if delivery.last_status else result

    @admin.action(description="Redeliver selected deliveries now")
    def redeliver(self, request: HttpRequest, deliveries: QuerySet[Delivery]) -> None:
        keys = _selected_keys(request, deliveries)
        counts = redeliver_all(deliveries=keys, now=timezone.now())
        level = messages.SUCCESS if counts.queued == len(keys) else messages.WARNING
        self.message_user(request, str(counts), level)


def _selected_keys(request: HttpRequest, rows: QuerySet[Any]) -> list[int]:
    """Return the rows' primary keys. Above MAX_ACTION_ROWS, show an error and return none."""
    keys = list(rows.order_by().values_list("pk", flat=True)[: MAX_ACTION_ROWS + 1])
    if len(keys) <= MAX_ACTION_ROWS:
        return keys
    messages.error(request, f"Select at most {MAX_ACTION_ROWS:,} rows, with a filter or a search.")
    return []
