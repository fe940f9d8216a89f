"""Routes of stored files, under /media."""

from django.urls import re_path

from commerce.attachments.media.views import media
from commerce.attachments.uploads.file_names import MAX_STEM_LENGTH

urlpatterns = [
    # The file system raises an error for a name that is too long, so the route matches only lengths that we store.
    re_path(
        rf"^attachments/(?P<path>[0-9a-f]{{32}}/(?:sizes/)?[\w-]{{1,{MAX_STEM_LENGTH}}}\.[a-z]{{3,4}})$",
        media,
        name="media",
    ),
]
