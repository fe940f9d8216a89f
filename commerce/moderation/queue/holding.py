"""Content that a rule holds before it is public, and what a rule would have held."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import merge

from commerce.moderation.decisions import Action, DecisionMessage, begin_decision, finish_decision, get_or_create_case
from commerce.moderation.models import Case, ContentKind, HoldingRule
from commerce.moderation.models.text_matching import MatchedText, find_hosts, is_host_listed, split_words
from commerce.moderation.reportable_content import CONTENT_MODELS, Reportable
from commerce.reviews.models import Question, Review
from shared.accounts.models import User

Kind = HoldingRule.Kind
REPETITION_WINDOW = timedelta(days=1)
MAX_COMPARED_TEXTS = 100  # newest texts of each kind of one author
PREVIEW_WINDOW = timedelta(days=30)
MAX_PREVIEWED_TEXTS = 5_000  # newest texts of each kind
MAX_EXAMPLES = 20


@dataclass(frozen=True, kw_only=True)
class HoldingPreview:
    """Number of the texts of the last month that were read, and of those that a rule would have held, with examples."""

    checked: int
    held: int
    examples: Sequence[Reportable]


def find_holding_rule(*, user: User, shop_id: int, text: str, now: datetime) -> HoldingRule | None:
    """Return the first rule that is on in this shop and holds the text of a user, or None."""
    if not text:
        return None
    words: MatchedText | None = None
    repeated: int | None = None
    for rule in HoldingRule.objects.filter(is_active=True).exclude(shops_off=shop_id).order_by("id"):
        if rule.kind == Kind.REPETITION:
            repeated = _count_repetitions(user, text, now) if repeated is None else repeated
            if repeated >= rule.repetitions:
                return rule
        else:
            words = words or MatchedText.of(text)
            if matches_text(rule, text, words):
                return rule
    return None


def hold_content(*, content: Reportable, rule: HoldingRule, now: datetime) -> Case:
    """Put new content, which was created hidden, into the queue with a decision that names the rule."""
    case = get_or_create_case(ContentKind(type(content).__name__), content, now)
    message = DecisionMessage(note=f"Held by the rule {rule.name}.")
    pending = begin_decision(Action.HIDDEN, case, content, [], moderator=None, message=message, now=now)
    finish_decision(pending, Case.State.OPEN, hiding=Case.Hiding.HELD, now=now)
    return case


def preview_rule(rule: HoldingRule, *, shops_off: Iterable[int] = (), now: datetime) -> HoldingPreview:
    """Return what a rule, which need not be saved, would have held of the newest texts of the last month."""
    off, since = frozenset(shops_off), now - PREVIEW_WINDOW
    earlier: dict[tuple[int, str], list[datetime]] = defaultdict(list)
    checked, held = 0, []
    for content in merge(
        *(_newest_texts(model) for model in CONTENT_MODELS.values()), key=lambda each: each.created_at
    ):
        text = content.text
        if content.created_at < since or not text or content.shop_id in off:
            continue
        checked += 1
        if rule.kind == Kind.REPETITION:
            times = earlier[content.user_id, _repetition_key(text)]
            times.append(content.created_at)
            window = content.created_at - REPETITION_WINDOW
            is_held = sum(at > window for at in times[-rule.repetitions :]) >= rule.repetitions
        else:
            is_held = matches_text(rule, text, MatchedText.of(text))
        if is_held:
            held.append(content)
    return HoldingPreview(checked=checked, held=len(held), examples=held[: -MAX_EXAMPLES - 1 : -1])


def matches_text(rule: HoldingRule, text: str, words: MatchedText) -> bool:
    """Return whether a rule of words or links holds a text, whose words are `words`."""
    if rule.kind == Kind.WORDS:
        return any(words.contains(line) for line in rule.lines)
    hosts = find_hosts(text, listed=rule.hosts)
    return any(is_host_listed(host, rule.hosts) for host in hosts) if rule.lines else bool(hosts)


def _count_repetitions(user: User, text: str, now: datetime) -> int:
    """Return how often a user has written this text within REPETITION_WINDOW, with this time."""
    since = now - REPETITION_WINDOW
    reviews = Review.objects.filter(user=user, created_at__gt=since).order_by("-id").values_list("comment", flat=True)
    questions = Question.objects.filter(user=user, created_at__gt=since).order_by("-id").values_list("question")
    texts = [*reviews[:MAX_COMPARED_TEXTS], *(row[0] for row in questions[:MAX_COMPARED_TEXTS])]
    wanted = _repetition_key(text)
    return 1 + sum(_repetition_key(each) == wanted for each in texts)


def _repetition_key(text: str) -> str:
    """Return the words of a text without what is between them; a text without words, such as emoji, as it is."""
    return "".join(split_words(text)) or text.strip()


def _newest_texts(model: type[Review] | type[Question]) -> list[Reportable]:
    """Return the newest texts of one kind, oldest first."""
    rows = model._default_manager.select_related("product", "shop").order_by("-id")[:MAX_PREVIEWED_TEXTS]
    return sorted(rows, key=lambda each: each.created_at)
