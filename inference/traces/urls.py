"""Routes of traces."""

from django.urls import path

from inference.traces import views

urlpatterns = [path("traces", views.traces)]
