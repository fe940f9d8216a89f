"""Admin of batches: progress, failed requests with their errors, and the actions cancel and retry."""

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
from shared.api.admin.base import ReadOnlyAdminMixin
from shared.api.errors import ApiError

MAX_FAILURES_SHOWN = 100
STATUS_COLORS = {
    Batch.Status.PROCESSING.label: "info",
    Batch.Status.COMPLETED.label: "success",
    Batch.Status.FAILED.label: "danger",
    Batch.Status.CANCELLED.label: "warning",
    Batch.Status.EXPIRED.label: "danger",
}


@admin.register(Batch)
class BatchAdmin(ReadOnlyAdminMixin, ModelAdmin):
    """Read-only admin of batches; actions change them. Prompts and answers are not shown."""

    list_display = ["batch_id", "user", "model_id", "shown_status", "progress", "created_at", "ended_at"]
    list_filter = ["status", "kind", "model_id"]
    list_select_related = ["user"]
    search_fields = ["batch_id", "user__email"]
    show_full_result_count = False
    fields = [
        "batch_id", "user", "api_key", "kind", "model_id", "shown_status", "progress", "reserved_tokens",
        "prompt_tokens", "completion_tokens", "workers", "backoff_count", "created_at", "expires_at", "ended_at",
        "failures",
    ]  # fmt: skip
    actions = ["cancel", "retry"]

    @display(description="Status", label=STATUS_COLORS, ordering="status")  # type: ignore[untyped-decorator]
    def shown_status(self, batch: Batch) -> str:
        return batch.get_status_display()

    @admin.display(description="Progress")
    def progress(self, batch: Batch) -> str:
        return render_to_string("inference_batches/progress.html", {"batch": batch, "shares": _progress_shares(batch)})

    @admin.display(description="Workers")
    def workers(self, batch: Batch) -> str:
        leases = batch.leases.filter(expires_at__gt=timezone.now()).exclude(worker="")
        return ", ".join(leases.values_list("worker", flat=True)) or "-"

    @admin.display(description="Failed requests")
    def failures(self, batch: Batch) -> str:
        requests = list(failed_requests(batch).defer("body", "result__answer")[:MAX_FAILURES_SHOWN])
        codes = failed_requests(batch).order_by().values_list("result__error_code").annotate(count=Count("pk"))
        rows = [
            [request.custom_id, request.result.error_code, request.result.error_message, str(request.attempts)]
            for request in requests
        ]
        table = {"headers": ["Request id", "Error code", "Message", "Attempts"], "rows": rows}
        context = {"table": table, "codes": list(codes), "shown": len(rows), "failed": batch.failed}
        return render_to_string("inference_batches/failures.html", context)

    @admin.action(description="Cancel selected batches, keeping finished results")
    def cancel(self, request: HttpRequest, batches: QuerySet[Batch]) -> None:
        running = list(batches.filter(ended_at=None).values_list("pk", flat=True))
        for batch_pk in running:
            services.cancel_batch(batch_pk=batch_pk, now=timezone.now())
        self.message_user(request, f"Cancelled batches: {len(running)}.")

    @admin.action(description="Retry failed requests as a new batch")
    def retry(self, request: HttpRequest, batches: QuerySet[Batch]) -> None:
        for batch in batches:
            try:
                new_batch = services.retry_failed(batch_pk=batch.pk, now=timezone.now())
                self.message_user(request, f"{batch}: retrying {new_batch.total} requests as {new_batch}.")
            except ApiError as error:
                self.message_user(request, f"{batch}: {error}", messages.ERROR)


def _progress_shares(batch: Batch) -> list[dict[str, Any]]:
    """Return the segments of the progress bar, in percent."""
    parts = (("completed", batch.completed, ""), ("failed", batch.failed, "bg-red-500 dark:bg-red-500"))
    return [
        {"title": title, "value": round(100 * count / batch.total, 1), "progress_class": css_class}
        for title, count, css_class in parts
        if count
    ]
