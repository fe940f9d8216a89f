"""The best of several texts for one request, by the rules and by how awkward they are."""

from dataclasses import dataclass, field

from commerce.descriptions.text.awkwardness import awkwardness
from commerce.descriptions.text.plain_text import MAX_DESCRIPTION_LENGTH, plain_text
from commerce.descriptions.text.prompts import PLAIN_MODELS, DescriptionRequest
from commerce.descriptions.text.rules import broken_rules

ACCEPTED_AWKWARDNESS = 1


@dataclass
class BestText:
    """The best so far of the texts that a model drew for a request.

    text: empty if none keeps the rules. count: texts that were compared. broken: the rules that others broke, without
    the shop's words.
    """

    request: DescriptionRequest
    model: str
    text: str = ""
    awkwardness: int = 0
    count: int = 0
    broken: set[str] = field(default_factory=set)

    def add(self, written: str, *, ended: bool) -> None:
        """Compare one more text of the model with the best one. ended: the model ended it itself."""
        text = plain_text(written)
        if not text or len(text) > MAX_DESCRIPTION_LENGTH:
            return
        self.count += 1
        rules = broken_rules(text, self.request, ended=ended, is_plain=self._is_plain)
        self.broken |= {rule.partition('"')[0].strip() for rule in rules}
        if not rules:
            score = awkwardness(text, self.request)
            if not self.text or score < self.awkwardness:
                self.text, self.awkwardness = text, score

    @property
    def is_final(self) -> bool:
        """Return whether no other draw could be better.

        Models that are not plain have words of their own, which could always be plainer, and their draws may cost
        money: their first text that keeps the rules is final.
        """
        return bool(self.text) and (not self._is_plain or self.awkwardness == 0)

    @property
    def is_accepted(self) -> bool:
        """Return whether the text is worth no further round of draws."""
        return self.is_final or (bool(self.text) and self.awkwardness <= ACCEPTED_AWKWARDNESS)

    @property
    def _is_plain(self) -> bool:
        return self.model in PLAIN_MODELS
