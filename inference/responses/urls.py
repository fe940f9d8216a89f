"""Routes of responses and conversations."""

from django.urls import path

from inference.access.operations import by_method
from inference.responses import views

urlpatterns = [
    path("v1/responses", views.create),
    path("v1/responses/input_tokens", views.count_tokens),
    path("v1/responses/compact", views.compact),
    path("v1/responses/<str:response_id>", by_method(GET=views.retrieve, DELETE=views.delete)),
    path("v1/responses/<str:response_id>/cancel", views.cancel),
    path("v1/responses/<str:response_id>/input_items", views.input_items),
    path("v1/conversations", views.create_conversation),
    path(
        "v1/conversations/<str:conversation_id>",
        by_method(GET=views.retrieve_conversation, POST=views.update_conversation, DELETE=views.delete_conversation),
    ),
    path(
        "v1/conversations/<str:conversation_id>/items",
        by_method(GET=views.list_conversation_items, POST=views.create_conversation_items),
    ),
    path(
        "v1/conversations/<str:conversation_id>/items/<str:item_id>",
        by_method(GET=views.retrieve_conversation_item, DELETE=views.delete_conversation_item),
    ),
]
