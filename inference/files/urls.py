"""URL routes of files and uploads."""

from django.urls import path

from inference.access.operations import by_method
from inference.files import views
from inference.files.uploads import views as uploads

urlpatterns = [
    path("v1/files", by_method(GET=views.list_files, POST=views.upload_file)),
    path("v1/files/<str:file_id>", by_method(GET=views.read_file, DELETE=views.delete_file)),
    path("v1/files/<str:file_id>/content", views.read_content),
    path("v1/uploads", uploads.create_upload),
    path("v1/uploads/<str:upload_id>", uploads.read_upload),
    path("v1/uploads/<str:upload_id>/parts", uploads.add_part),
    path("v1/uploads/<str:upload_id>/complete", uploads.complete_upload),
    path("v1/uploads/<str:upload_id>/cancel", uploads.cancel_upload),
]
