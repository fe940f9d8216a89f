"""Django's name for this app."""

from django.apps import AppConfig


class ReviewsConfig(AppConfig):
    name = "commerce.reviews"
    label = "commerce_reviews"
    verbose_name = "Reviews"
