"""Presenters of suggestions and of similar past decisions."""

from collections.abc import Sequence
from dataclasses import dataclass

from commerce.moderation.admin.labels import ACTIONS, reason_name
from commerce.moderation.models import DecisionTemplate
from commerce.moderation.queue.listing import CaseFile
from commerce.moderation.suggestions.reading import SimilarDecision, Suggestion


@dataclass(frozen=True, kw_only=True)
class SuggestionLine:
    """A suggestion in words, with the template that taking it over chooses."""

    suggestion: Suggestion
    template: DecisionTemplate | None

    @property
    def reason(self) -> str:
        return reason_name(self.suggestion.reason) if self.suggestion.reason else ""

    @property
    def percent(self) -> int:
        return int(self.suggestion.precision * 100)


@dataclass(frozen=True)
class SimilarLine:
    """A similar past decision in words."""

    similar: SimilarDecision

    @property
    def text(self) -> str:
        return str(ACTIONS[self.similar.decision.action])

    @property
    def percent(self) -> int:
        return int(self.similar.similarity * 100)


def suggestion_line(file: CaseFile, templates: Sequence[DecisionTemplate]) -> SuggestionLine | None:
    """Return the suggestion for a case with the first of the offered templates for its reason."""
    suggestion = file.advice.suggestion
    if suggestion is None:
        return None
    reason_id = suggestion.reason.pk if suggestion.reason else None
    template = next((each for each in templates if reason_id and each.reason_id == reason_id), None)
    return SuggestionLine(suggestion=suggestion, template=template)
