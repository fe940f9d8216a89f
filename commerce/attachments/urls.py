"""Routes of attachments, under /api."""

from django.urls import path

from commerce.attachments.views import AttachmentsView, AttachmentView, FinalizeView, PresignView

urlpatterns = [
    path("attachments", AttachmentsView.as_view()),
    path("attachments/presign", PresignView.as_view()),
    path("attachments/finalize", FinalizeView.as_view()),
    path("attachments/<id:pk>", AttachmentView.as_view()),
]
