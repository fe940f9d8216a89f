"""URL routes of files."""

from django.urls import path

from inference.access.operations import by_method
from inference.files import views

urlpatterns = [
    path("v1/files", by_method(GET=views.list_files, POST=views.upload_file)),
    path("v1/files/<str:file_id>", by_method(GET=views.read_file, DELETE=views.delete_file)),
    path("v1/files/<str:file_id>/content", views.read_content),
]
