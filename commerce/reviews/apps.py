"""Django's name for this app, and which of its texts are searched for words (`shared/api/text_indexes`)."""

from django.apps import AppConfig


class ReviewsConfig(AppConfig):
    name = "commerce.reviews"
    label = "commerce_reviews"
    verbose_name = "Reviews"
    searched_texts = {"review": ["comment"], "question": ["question", "answer"]}
