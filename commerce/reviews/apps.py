"""Configuration of the reviews app. `searched_texts` names the columns with trigram indexes (`text_indexes`)."""

from django.apps import AppConfig


class ReviewsConfig(AppConfig):
    name = "commerce.reviews"
    label = "commerce_reviews"
    verbose_name = "Reviews"
    text_search_fields = {"review": ["comment"], "question": ["question", "answer"]}
