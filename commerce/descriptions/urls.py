"""Where descriptions are asked for."""

from django.urls import path

from commerce.descriptions.views import GenerateDescriptionView

urlpatterns = [path("generate-descriptions", GenerateDescriptionView.as_view())]
