"""Models for operators: what there is, what runs and what it costs, why something does not; loading and unloading."""

import asyncio
from collections.abc import Coroutine
from typing import Any
from urllib.parse import urlencode

from asgiref.sync import async_to_sync
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.defaultfilters import filesizeformat
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.views.decorators.http import require_POST
from unfold.admin import ModelAdmin

from inference.engine import EngineError
from inference.protocol import native
from inference.registry import listing, services
from inference.registry.forms import LoadForm
from inference.registry.models import WantedModel
from shared.api.errors import ApiError

# A page waits so long for a load or an unload; it goes on by itself, and the list tells how far it is.
WAITS_S = 2.0
HEADERS = ["Model", "State", "Parameters", "Context", "Memory", "Last error", ""]


@admin.register(WantedModel)
class ModelsAdmin(ModelAdmin):
    """One list and one form. What a model is comes from the disk and the model host, so that no row is edited."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_urls(self) -> list[URLPattern]:
        guard = self.admin_site.admin_view
        return [
            path("", guard(self.changelist_view), name="inference_registry_wantedmodel_changelist"),
            path("load/", guard(self.load_view), name="inference_registry_wantedmodel_load"),
            path("unload/", guard(require_POST(self.unload_view)), name="inference_registry_wantedmodel_unload"),
        ]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        models = async_to_sync(listing.list_models)()
        context = {
            "table": {"headers": HEADERS, "rows": [_row(model, request) for model in models]},
            "is_changing": any(model.state in ("loading", "unloading") for model in models),
        }
        return self._page(request, "models", "Models", context | (extra_context or {}))

    def load_view(self, request: HttpRequest) -> HttpResponse:
        """GET shows the form for ?model=, POST loads it."""
        model_id = (request.POST if request.method == "POST" else request.GET).get("model", "")
        try:
            async_to_sync(services.find_loadable)(model_id)
        except ApiError as error:
            return self._back(request, messages.ERROR, error.problem.message)
        form = LoadForm(request.POST or None)
        if not form.is_valid():
            return self._page(request, "load", f"Load {model_id}", {"form": form, "model": model_id})
        actor: Any = request.user
        try:
            loading = services.load_model(model_id=model_id, options=form.options(), actor=actor, now=timezone.now())
        except EngineError as error:
            return self._back(request, messages.ERROR, error.message)
        return self._carry_out(request, loading, f"{model_id} is loaded.", f"{model_id} is loading.")

    def unload_view(self, request: HttpRequest) -> HttpResponse:
        model_id, actor = request.POST.get("model", ""), request.user
        unloading = services.unload_model(model_id=model_id, force=False, actor=actor, now=timezone.now())  # type: ignore[arg-type]
        later = f"{model_id} finishes what it does, then it is unloaded."
        return self._carry_out(request, unloading, f"{model_id} is unloaded.", later)

    def _carry_out(
        self, request: HttpRequest, work: Coroutine[Any, Any, object], done: str, going_on: str
    ) -> HttpResponse:
        try:
            is_done = async_to_sync(_finished)(work)
        except (ApiError, EngineError) as error:
            return self._back(request, messages.ERROR, str(error))
        return self._back(request, messages.SUCCESS if is_done else messages.INFO, done if is_done else going_on)

    def _back(self, request: HttpRequest, level: int, message: str) -> HttpResponse:
        self.message_user(request, message, level)
        return HttpResponseRedirect(reverse("admin:inference_registry_wantedmodel_changelist"))

    def _page(self, request: HttpRequest, name: str, title: str, context: dict[str, Any]) -> HttpResponse:
        shown = self.admin_site.each_context(request) | {"title": title, "opts": self.opts} | context
        return TemplateResponse(request, f"inference_registry/{name}.html", shown)


async def _finished(work: Coroutine[Any, Any, object]) -> bool:
    """Whether it was done within the time that a page waits; it goes on when it was not."""
    task = asyncio.ensure_future(work)
    _going_on.add(task)
    task.add_done_callback(_going_on.discard)
    done, _ = await asyncio.wait({task}, timeout=WAITS_S)
    if done:
        task.result()
    return bool(done)


_going_on: set[asyncio.Future[object]] = set()


def _row(model: native.Model, request: HttpRequest) -> list[str]:
    state = f"{model.state} {model.progress:.0%}" if model.progress is not None else model.state
    load = f"{reverse('admin:inference_registry_wantedmodel_load')}?{urlencode({'model': model.id})}"
    return [
        render_to_string("inference_registry/model_name.html", {"model": model}),
        render_to_string("inference_registry/model_state.html", {"model": model, "state": state}),
        f"{model.parameters:,}" if model.parameters else "",
        f"{model.context_size:,}" if model.context_size else "",
        filesizeformat(model.memory_usage_bytes) if model.memory_usage_bytes else "",
        render_to_string("inference_registry/model_error.html", {"model": model}),
        render_to_string("inference_registry/model_actions.html", {"model": model, "load": load}, request),
    ]
