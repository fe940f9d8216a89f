"""Admin pages of reviews and questions, which can be viewed and taken down but not edited."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from commerce.reviews.models import Question, Review
from commerce.reviews.moderation_hooks import hooks
from shared.api.admin.base import MAX_SEARCH_RESULTS, IndexedEmptyFieldListFilter, LargeTableAdmin
from shared.api.errors import ApiError
from shared.api.lists.text_search import query_words, rows_with_words

MAX_EXCERPT_LENGTH = 120


def excerpt_column(name: str) -> Callable[[Any], str]:
    """Return a column with the beginning of a long text."""

    @admin.display(description=name.capitalize(), empty_value="-")
    def excerpt(row: Any) -> str:
        return Truncator(getattr(row, name)).chars(MAX_EXCERPT_LENGTH)

    return excerpt


class ContentAdmin(LargeTableAdmin):
    """Common base of the pages of reviews and questions."""

    list_select_related = ["product", "user"]
    list_filter: list[Any] = [
        ["deleted_at", IndexedEmptyFieldListFilter],
        ["product", AutocompleteSelectFilter],
        ["shop", AutocompleteSelectFilter],
    ]
    search_fields = ["user__email", "product__slug"]
    search_help_text = "Words of the text, the start of the author's e-mail address or of a product's name, or an id"
    actions = ["take_down"]
    text_column = ""  # in which a search finds words

    def get_search_results(
        self, request: HttpRequest, queryset: "QuerySet[Any]", search_term: str
    ) -> "tuple[QuerySet[Any], bool]":
        """Add what has the words of the search term to what begins with it."""
        found, may_have_duplicates = super().get_search_results(request, queryset, search_term)
        if query_words(search_term):
            found |= queryset.filter(
                pk__in=rows_with_words(self.model, self.text_column, search_term, limit=MAX_SEARCH_RESULTS)
            )
        return found, may_have_duplicates

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return False: `take_down` hides content and keeps its row."""
        return False

    def take_down_all(self, request: HttpRequest, contents: "QuerySet[Any]") -> None:
        """Take content down as a moderator does in the queue, with an audit entry and a chance to undo it there."""
        for content in contents:
            model_type, now = type(content).__name__, timezone.now()
            try:
                hooks.take_down(model_type=model_type, model_id=content.pk, moderator=request.user, now=now)
            except ApiError as error:
                self.message_user(request, f"{content}: {error}", messages.ERROR)


class RatingFilter(admin.SimpleListFilter):
    """Filter by rating. Django's own filter would read the whole table to find which ratings exist."""

    title = parameter_name = "rating"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(stars), _("%(stars)d of 5") % {"stars": stars}) for stars in range(1, 6)]

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        rating = self.value()
        return queryset.filter(rating=rating) if rating in dict(self.lookup_choices) else queryset


@admin.register(Review)
class ReviewAdmin(ContentAdmin):
    text_column = "comment"
    list_display = [
        "product",
        "rating",
        excerpt_column("comment"),
        "user",
        "abusive_reports_count",
        "created_at",
        "deleted_at",
    ]
    list_filter = [RatingFilter, *ContentAdmin.list_filter]

    @admin.action(description="Take down: remove from every list and from the product's rating")
    def take_down(self, request: HttpRequest, reviews: "QuerySet[Review]") -> None:
        self.take_down_all(request, reviews.filter(deleted_at=None))


@admin.register(Question)
class QuestionAdmin(ContentAdmin):
    text_column = "question"
    list_display = [
        "product",
        excerpt_column("question"),
        excerpt_column("answer"),
        "user",
        "abusive_reports_count",
        "created_at",
        "deleted_at",
    ]

    @admin.action(description="Take down: remove from every list")
    def take_down(self, request: HttpRequest, questions: "QuerySet[Question]") -> None:
        self.take_down_all(request, questions.filter(deleted_at=None))
