"""Batches for operators: how far they are, what failed in them and why; cancelling, and trying again what failed."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import Count, QuerySet
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils import timezone
from unfold.admin import ModelAdmin
from unfold.decorators import display

from inference.batches import services
from inference.batches.models import Batch
from inference.batches.results import failed_requests
from shared.api.errors import ApiError

FAILURES_SHOWN = 100
STATUS_COLOURS = {
    Batch.Status.PROCESSING.label: "info",
    Batch.Status.COMPLETED.label: "success",
    Batch.Status.FAILED.label: "danger",
    Batch.Status.CANCELLED.label: "warning",
    Batch.Status.EXPIRED.label: "danger",
}


@admin.register(Batch)
class BatchAdmin(ModelAdmin):
    """Batches are made by clients, and changed by actions alone. What was asked and answered is not shown."""

    list_display = ["batch_id", "user", "model_id", "shown_status", "progress", "created_at", "ended_at"]
    list_filter = ["status", "kind", "model_id"]
    list_select_related = ["user"]
    search_fields = ["batch_id", "user__email"]
    show_full_result_count = False
    fields = [
        "batch_id", "user", "api_key", "kind", "model_id", "shown_status", "progress", "reserved_tokens",
        "prompt_tokens", "completion_tokens", "workers", "setbacks", "created_at", "expires_at", "ended_at", "failures",
    ]  # fmt: skip
    actions = ["cancel", "retry"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @display(description="Status", label=STATUS_COLOURS, ordering="status")  # type: ignore[untyped-decorator]
    def shown_status(self, batch: Batch) -> str:
        return batch.get_status_display()

    @admin.display(description="Progress")
    def progress(self, batch: Batch) -> str:
        return render_to_string("inference_batches/progress.html", {"batch": batch, "shares": _shares(batch)})

    @admin.display(description="Worked on by")
    def workers(self, batch: Batch) -> str:
        leases = batch.leases.filter(until__gt=timezone.now()).exclude(worker="")
        return ", ".join(leases.values_list("worker", flat=True)) or "-"

    @admin.display(description="Failed requests")
    def failures(self, batch: Batch) -> str:
        requests = list(failed_requests(batch).defer("body", "result__answer")[:FAILURES_SHOWN])
        codes = failed_requests(batch).order_by().values_list("result__error_code").annotate(times=Count("pk"))
        rows = [
            [request.custom_id, request.result.error_code, request.result.error_message, str(request.attempts)]
            for request in requests
        ]
        table = {"headers": ["Request", "Code", "Why", "Attempts"], "rows": rows}
        told = {"table": table, "codes": list(codes), "shown": len(rows), "failed": batch.failed}
        return render_to_string("inference_batches/failures.html", told)

    @admin.action(description="Cancel: keep what is done, drop the rest")
    def cancel(self, request: HttpRequest, batches: QuerySet[Batch]) -> None:
        running = list(batches.filter(ended_at=None).values_list("pk", flat=True))
        for batch_pk in running:
            services.cancel_batch(batch_pk=batch_pk, now=timezone.now())
        self.message_user(request, f"Cancelled: {len(running)}.")

    @admin.action(description="Try the failed requests again, as a new batch")
    def retry(self, request: HttpRequest, batches: QuerySet[Batch]) -> None:
        for batch in batches:
            try:
                again = services.retry_failed(batch_pk=batch.pk, now=timezone.now())
                self.message_user(request, f"{batch}: {again.total} requests are tried again as {again}.")
            except ApiError as error:
                self.message_user(request, f"{batch}: {error}", messages.ERROR)


def _shares(batch: Batch) -> list[dict[str, Any]]:
    """Parts of the bar, in hundredths of the whole."""
    parts = (("completed", batch.completed, ""), ("failed", batch.failed, "bg-red-500 dark:bg-red-500"))
    return [
        {"title": title, "value": round(100 * count / batch.total, 1), "progress_class": colour}
        for title, count, colour in parts
        if count
    ]
