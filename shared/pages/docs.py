"""The page of an API's documentation: every operation, to try in the browser, under the header of the other pages."""

from drf_spectacular.views import SpectacularSwaggerSplitView
from rest_framework.authentication import SessionAuthentication


class DocsView(SpectacularSwaggerSplitView):
    """Anybody may have the page; the header names whoever is signed in to the admin."""

    url_name = "openapi"
    http_method_names = ["get", "head"]
    template_name = "pages/docs.html"
    authentication_classes = [SessionAuthentication]
