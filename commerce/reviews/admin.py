"""Reviews and questions, for the people who run the platform: to be read, and taken down."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.text import Truncator
from unfold.contrib.filters.admin import AutocompleteSelectFilter

from commerce.moderation.services import accept_report
from commerce.reviews.models import Question, Review
from shared.api.errors import ApiError
from shared.api.fast_admin import EmptyFilter, FastAdmin

SHOWN_CHARACTERS = 120


def beginning_of(name: str) -> Callable[[Any], str]:
    """A column with the beginning of a long text."""

    @admin.display(description=name.capitalize(), empty_value="-")
    def shown(row: Any) -> str:
        return Truncator(getattr(row, name)).chars(SHOWN_CHARACTERS)

    return shown


class ContentAdmin(FastAdmin):
    list_select_related = ["product", "user"]
    list_filter: list[Any] = [
        ["deleted_at", EmptyFilter],
        ["product", AutocompleteSelectFilter],
        ["shop", AutocompleteSelectFilter],
    ]
    search_fields = ["user__email", "product__slug"]
    search_help_text = "The beginning of the author's e-mail or of a product's name, or an id"
    actions = ["take_down"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """What customers wrote is not rewritten."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """The action hides it, and the row stays."""
        return False

    def accept(self, request: HttpRequest, contents: "QuerySet[Any]") -> None:
        """As a moderator does in the queue: logged, and to be undone there."""
        for content in contents:
            kind, now = type(content).__name__, timezone.now()
            try:
                accept_report(model_type=kind, model_id=content.pk, moderator=request.user, now=now)  # type: ignore[arg-type]
            except ApiError as error:
                self.message_user(request, f"{content}: {error}", messages.ERROR)


class RatingFilter(admin.SimpleListFilter):
    """Django's own asks the table which ratings there are, and so reads all of it."""

    title = parameter_name = "rating"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(str(stars), f"{stars} of 5") for stars in range(1, 6)]

    def queryset(self, request: HttpRequest, queryset: "QuerySet[Any]") -> "QuerySet[Any]":
        chosen = self.value()
        return queryset.filter(rating=chosen) if chosen in dict(self.lookup_choices) else queryset


@admin.register(Review)
class ReviewAdmin(ContentAdmin):
    list_display = [
        "product",
        "rating",
        beginning_of("comment"),
        "user",
        "abusive_reports_count",
        "created_at",
        "deleted_at",
    ]
    list_filter = [RatingFilter, *ContentAdmin.list_filter]

    @admin.action(description="Take down: off every list, and out of the product's rating")
    def take_down(self, request: HttpRequest, reviews: "QuerySet[Review]") -> None:
        self.accept(request, reviews.filter(deleted_at=None))


@admin.register(Question)
class QuestionAdmin(ContentAdmin):
    list_display = [
        "product",
        beginning_of("question"),
        beginning_of("answer"),
        "user",
        "abusive_reports_count",
        "created_at",
        "deleted_at",
    ]

    @admin.action(description="Take down: off every list")
    def take_down(self, request: HttpRequest, questions: "QuerySet[Question]") -> None:
        self.accept(request, questions.filter(deleted_at=None))
