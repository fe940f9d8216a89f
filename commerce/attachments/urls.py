"""Routes of attachments, under /api, and of their files, under /media."""

from django.urls import path, re_path

from commerce.attachments.file_names import LONGEST
from commerce.attachments.media import media
from commerce.attachments.views import AttachmentsView, AttachmentView, FinalizeView, PresignView

urlpatterns = [
    path("attachments", AttachmentsView.as_view()),
    path("attachments/presign", PresignView.as_view()),
    path("attachments/finalize", FinalizeView.as_view()),
    path("attachments/<id:pk>", AttachmentView.as_view()),
]

media_urlpatterns = [
    # No name is longer than ours are: a file system would refuse to look for it.
    re_path(
        rf"^attachments/(?P<path>[0-9a-f]{{32}}/(?:sizes/)?[\w-]{{1,{LONGEST}}}\.[a-z]{{3,4}})$", media, name="media"
    ),
]
