"""Routes of reranking, scores, decisions and moderations."""

from django.urls import path

from inference.scoring import views

urlpatterns = [
    path("rerank", views.rerank),
    path("v1/rerank", views.rerank),
    path("v2/rerank", views.rerank_without_documents),
    path("score", views.score),
    path("v1/decisions", views.decisions),
    path("v1/moderations", views.moderations),
]
