"""Routes of models and health."""

from django.urls import path, register_converter

from inference.registry import views


class AnyId:
    """Whatever stands in an id's place, slashes too: a wrong id is a model not found, not a wrong route."""

    regex = r"[\s\S]+"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(AnyId, "any_id")

urlpatterns = [
    path("health", views.health),
    path("models", views.models),
    path("models/<any_id:model_id>/load", views.load),
    path("models/<any_id:model_id>/unload", views.unload),
    path("v1/models", views.openai_models),
    path("v1/models/<any_id:model_id>", views.openai_model),
]
