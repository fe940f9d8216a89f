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

    wanted: how many different texts are to keep the rules. kept: how awkward those are that do, by text. refused: how
    many rules those break that do not, by text, if the model ended them. count: texts that were compared. broken: the
    rules that were broken, without the shop's words.
    """

    request: DescriptionRequest
    model: str
    wanted: int = 1
    count: int = 0
    kept: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
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
            self.kept[text] = awkwardness(text, self.request)
        elif ended:
            self.refused[text] = len(rules)

    @property
    def text(self) -> str:
        """Return the best text, or an empty one if none keeps the rules."""
        return min(self.kept, key=self.kept.__getitem__, default="")

    @property
    def variants(self) -> list[str]:
        """Return the texts that keep the rules, then the others, each time the best first."""
        return sorted(self.kept, key=self.kept.__getitem__) + sorted(self.refused, key=self.refused.__getitem__)

    @property
    def is_final(self) -> bool:
        """Return whether no other draw could be better.

        Models that are not plain have words of their own, which could always be plainer, and their draws may cost
        money: their first texts that keep the rules are final.
        """
        return self._has_wanted(max_awkwardness=0) if self._is_plain else len(self.kept) >= self.wanted

    @property
    def is_accepted(self) -> bool:
        """Return whether the texts are worth no further round of draws."""
        return self.is_final or self._has_wanted(max_awkwardness=ACCEPTED_AWKWARDNESS)

    def _has_wanted(self, *, max_awkwardness: int) -> bool:
        return sum(score <= max_awkwardness for score in self.kept.values()) >= self.wanted

    @property
    def _is_plain(self) -> bool:
        return self.model in PLAIN_MODELS
