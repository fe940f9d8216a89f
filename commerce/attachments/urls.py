"""Routes of attachments, under /api."""

from django.urls import path

from commerce.attachments.views import AttachmentViewSet, FinalizeView, PresignView
from shared.api.viewsets import ApiRouter

router = ApiRouter()
router.register("attachments", AttachmentViewSet)

urlpatterns = [
    *router.urls,
    path("attachments/presign", PresignView.as_view()),
    path("attachments/finalize", FinalizeView.as_view()),
]
