"""The page."""

from django.urls import path

from inference.playground.views import playground

urlpatterns = [path("playground", playground)]
