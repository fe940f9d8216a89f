"""The admin of models: their states, and loading and unloading."""

import asyncio
from collections.abc import Coroutine
from typing import Any
from urllib.parse import urlencode

import msgspec
from asgiref.sync import async_to_sync
from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.defaultfilters import filesizeformat
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.views.decorators.http import require_POST
from unfold.admin import ModelAdmin
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget

from inference.engine import EngineError, LoadOptions
from inference.protocol.native.models import LoadModelRequest, ModelInfo
from inference.protocol.parsing import parse_struct
from inference.registry import model_status, services
from inference.registry.models import DesiredModel
from shared.api.admin.base import ReadOnlyAdminMixin
from shared.api.errors import ApiError

# A page waits so long for a load or an unload, which then continues in the background.
WAIT_SECONDS = 2.0
HEADERS = ["Model", "State", "Parameters", "Context", "Memory", "Last error", "Action"]
URL_PREFIX = "inference_registry_desiredmodel"


class LoadForm(forms.Form):
    """The load options of a model, with the bounds of POST /models/{id}/load. An empty field means its default."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _, components = msgspec.json.schema_components([LoadModelRequest])
        properties = components[LoadModelRequest.__name__]["properties"]
        self.fields |= {name: _form_field(schema) for name, schema in properties.items()}

    def options(self) -> LoadOptions:
        """Return the options, or raise InvalidRequest, which names the wrong field."""
        values = {name: value for name, value in self.cleaned_data.items() if value not in (None, "")}
        return parse_struct(values, LoadModelRequest).options()


@admin.register(DesiredModel)
class DesiredModelAdmin(ReadOnlyAdminMixin, ModelAdmin):
    """The list of models, and the form that loads one. No database row is edited directly."""

    def get_urls(self) -> list[URLPattern]:
        admin_view = self.admin_site.admin_view
        return [
            path("", admin_view(self.changelist_view), name=f"{URL_PREFIX}_changelist"),
            path("load/", admin_view(self.load_view), name=f"{URL_PREFIX}_load"),
            path("unload/", admin_view(require_POST(self.unload_view)), name=f"{URL_PREFIX}_unload"),
        ]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        models = async_to_sync(model_status.list_models)(with_members=True)
        context = {
            "table": {"headers": HEADERS, "rows": [_row(model, request) for model in models]},
            "is_changing": any(model.state in ("loading", "unloading") for model in models),
        }
        return self._render(request, "models", "Models", context | (extra_context or {}))

    def load_view(self, request: HttpRequest) -> HttpResponse:
        """Show the form for the model of the query string, or load it on POST."""
        model_id = (request.POST if request.method == "POST" else request.GET).get("model", "")
        try:
            async_to_sync(services.find_loadable_model)(model_id)
        except ApiError as error:
            return self._redirect(request, messages.ERROR, error.problem.message)
        form = LoadForm(request.POST or None)
        if not form.is_valid():
            return self._render(request, "load", f"Load {model_id}", {"form": form, "model": model_id})
        actor: Any = request.user
        try:
            loading = services.load_model(model_id=model_id, options=form.options(), actor=actor, now=timezone.now())
        except EngineError as error:
            return self._redirect(request, messages.ERROR, error.message)
        return self._run(request, loading, f"{model_id} is loaded.", f"{model_id} is loading.")

    def unload_view(self, request: HttpRequest) -> HttpResponse:
        model_id, actor = request.POST.get("model", ""), request.user
        unloading = services.unload_model(model_id=model_id, force=False, actor=actor, now=timezone.now())  # type: ignore[arg-type]
        in_progress = f"{model_id} is unloading: running requests finish first."
        return self._run(request, unloading, f"{model_id} is unloaded.", in_progress)

    def _run(
        self, request: HttpRequest, work: Coroutine[Any, Any, object], done: str, in_progress: str
    ) -> HttpResponse:
        try:
            is_done = async_to_sync(_run_in_background)(work)
        except (ApiError, EngineError) as error:
            return self._redirect(request, messages.ERROR, str(error))
        level, message = (messages.SUCCESS, done) if is_done else (messages.INFO, in_progress)
        return self._redirect(request, level, message)

    def _redirect(self, request: HttpRequest, level: int, message: str) -> HttpResponse:
        self.message_user(request, message, level)
        return HttpResponseRedirect(reverse(f"admin:{URL_PREFIX}_changelist"))

    def _render(self, request: HttpRequest, name: str, title: str, context: dict[str, Any]) -> HttpResponse:
        context = self.admin_site.each_context(request) | {"title": title, "opts": self.opts} | context
        return TemplateResponse(request, f"inference_registry/{name}.html", context)


async def _run_in_background(work: Coroutine[Any, Any, object]) -> bool:
    """Start work and return whether it finished within WAIT_SECONDS. Raise what it raised."""
    task = asyncio.ensure_future(work)
    _background_tasks.add(task)
    task.add_done_callback(_background_tasks.discard)
    done, _ = await asyncio.wait({task}, timeout=WAIT_SECONDS)
    if done:
        task.result()
    return bool(done)


_background_tasks: set[asyncio.Future[object]] = set()


def _row(model: ModelInfo, request: HttpRequest) -> list[str]:
    state = f"{model.state} {model.progress:.0%}" if model.progress is not None else model.state
    load_url = f"{reverse(f'admin:{URL_PREFIX}_load')}?{urlencode({'model': model.id})}"
    return [
        render_to_string("inference_registry/model_name.html", {"model": model}),
        render_to_string("inference_registry/model_state.html", {"model": model, "state": state}),
        f"{model.parameters:,}" if model.parameters else "",
        f"{model.context_size:,}" if model.context_size else "",
        filesizeformat(model.memory_usage_bytes) if model.memory_usage_bytes else "",
        render_to_string("inference_registry/model_error.html", {"model": model}),
        render_to_string("inference_registry/model_actions.html", {"model": model, "load_url": load_url}, request),
    ]


def _form_field(schema: dict[str, Any]) -> forms.Field:
    """Return the form field for a property of the request's JSON schema."""
    default = schema.get("default")
    default_text = f"Default: {default}." if default is not None else ""
    help_text = f"{schema.get('description', '')} {default_text}".strip()
    if schema.get("type") == "object":
        return forms.JSONField(required=False, widget=UnfoldAdminTextareaWidget, help_text=help_text)
    if "enum" in schema:
        choices = [(value, value) for value in schema["enum"]]
        widget = UnfoldAdminSelectWidget
        return forms.ChoiceField(choices=choices, initial=default, required=False, widget=widget, help_text=help_text)
    return forms.IntegerField(
        min_value=schema.get("minimum"),
        max_value=schema.get("maximum"),
        required=False,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text=help_text,
    )
