"""Routes of models and health."""

from django.urls import path, register_converter

from inference.registry import views


class ModelIdConverter:
    """A path converter that accepts any text, slashes included: a wrong id is a missing model, not a missing route."""

    regex = r"[\s\S]+"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(ModelIdConverter, "model_id")

urlpatterns = [
    path("health", views.health),
    path("models", views.models),
    path("models/<model_id:model_id>/load", views.load),
    path("models/<model_id:model_id>/unload", views.unload),
    path("v1/models", views.openai_models),
    path("v1/models/<model_id:model_id>", views.openai_model),
]
