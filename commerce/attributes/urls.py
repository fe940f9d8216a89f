"""Routes of attributes, under /api."""

from django.urls import path

from commerce.attributes.views import AttributeViewSet, ExportAttributesView, ImportAttributesView
from shared.api.viewsets import ApiRouter

router = ApiRouter()
router.register("attributes", AttributeViewSet)

urlpatterns = [
    *router.urls,
    path("export-attributes/<id:shop_id>", ExportAttributesView.as_view()),
    path("import-attributes", ImportAttributesView.as_view()),
]
