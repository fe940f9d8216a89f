"""Routes of reviews and questions, under /api."""

from django.urls import path

from commerce.reviews.views import QuestionListView, QuestionView, ReviewListView, ReviewView

urlpatterns = [
    path("reviews", ReviewListView.as_view()),
    path("reviews/<id:pk>", ReviewView.as_view()),
    path("questions", QuestionListView.as_view()),
    path("questions/<id:pk>", QuestionView.as_view()),
]
