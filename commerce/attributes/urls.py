"""Routes of attributes, under /api."""

from django.urls import path

from commerce.attributes.views import AttributeListView, AttributeView, ExportAttributesView, ImportAttributesView

urlpatterns = [
    path("attributes", AttributeListView.as_view()),
    path("attributes/<slug:key>", AttributeView.as_view()),
    path("export-attributes/<id:shop_id>", ExportAttributesView.as_view()),
    path("import-attributes", ImportAttributesView.as_view()),
]
