"""Moderation of texts: by a classifier's labels, or by questions to a generating model, one for each category."""

from django.conf import settings

from inference.engine import InvalidRequest, ScoringQuestion, ScoringRequest, ScoringResult
from inference.protocol.openai.moderations import ModerationResult
from inference.registry.catalog import read_catalog
from inference.scoring.decisions import NO, YES, context_text
from inference.scoring.services import score_requests
from shared.accounts.authentication import Principal
from shared.observability.request_id import current_request_id
from shared.serving.db_threads import run_in_db_thread

OPENAI_MODELS = ("omni-moderation", "text-moderation")  # beginnings of the names that OpenAI's clients send
CLASSIFICATION = "classification"
FLAGGED = 0.5

# OpenAI's categories, and what each asks of a text.
CATEGORIES = {
    "harassment": "It insults, bullies or demeans a person or a group.",
    "harassment/threatening": "It insults or bullies somebody and threatens them with violence or serious harm.",
    "hate": "It attacks people for their race, origin, religion, gender, orientation, disability or caste.",
    "hate/threatening": "It attacks people for what they are and threatens them with violence or serious harm.",
    "illicit": "It explains how to commit a crime or another wrongdoing.",
    "illicit/violent": "It explains how to commit a violent crime, or how to get a weapon.",
    "self-harm": "It shows or encourages suicide, cutting, eating disorders or other self-harm.",
    "self-harm/intent": "Its author intends to harm themselves, or is doing so.",
    "self-harm/instructions": "It explains how to harm oneself, or advises it.",
    "sexual": "It is meant to arouse sexually, or offers sexual services.",
    "sexual/minors": "It is sexual and involves a person below 18 years.",
    "violence": "It shows death, violence or injuries.",
    "violence/graphic": "It shows death, violence or injuries in graphic detail.",
}
QUESTIONS = tuple(
    ScoringQuestion(f"Is this true of the input? {statement}\nAnswer {YES} or {NO}.", (YES, NO))
    for statement in CATEGORIES.values()
)


async def moderate(
    *, caller: Principal, model: str | None, texts: tuple[str, ...]
) -> tuple[str, list[dict[str, float]]]:
    """Return the model that moderated, and the probability of each category for each text.

    model: None, or one of OpenAI's names, is the configured one.

    Raise InvalidRequest if none is configured, or a classifier's labels have no category; and as `score_texts` does.
    """
    model_id = _model_id(model)
    catalog = await run_in_db_thread(read_catalog)
    is_classifier = model_id in catalog and CLASSIFICATION in catalog[model_id].capabilities
    if is_classifier:
        request = ScoringRequest(request_id=current_request_id(), texts=texts, max_text_tokens=None)
        [result] = await score_requests(caller=caller, model_id=model_id, requests=[request])
        return model_id, _by_label(model_id, result)
    requests = [
        ScoringRequest(request_id=current_request_id(), context=context_text(text), questions=QUESTIONS)
        for text in texts
    ]
    results = await score_requests(caller=caller, model_id=model_id, requests=requests)
    return model_id, [
        {category: scores[0] for category, scores in zip(CATEGORIES, result.scores, strict=True)} for result in results
    ]


def moderation_result(scores: dict[str, float]) -> ModerationResult:
    """Return the result of a text: categories of FLAGGED or more are flagged."""
    categories = {category: score >= FLAGGED for category, score in scores.items()}
    return ModerationResult(
        flagged=any(categories.values()),
        categories=categories,
        category_scores=scores,
        category_applied_input_types={category: ["text"] for category in scores},
    )


def _model_id(model: str | None) -> str:
    if model is not None and not model.startswith(OPENAI_MODELS):
        return model
    if not settings.MODERATION_MODEL:
        raise InvalidRequest(
            "No moderation model is configured. Load a classifier or a text-generation model, and name it in `model`, "
            "or for all requests in the setting STOA_MODERATION_MODEL.",
            field="model",
        )
    return str(settings.MODERATION_MODEL)


def _by_label(model_id: str, result: ScoringResult) -> list[dict[str, float]]:
    """Return the scores of labels that are categories, or that the operator has given one; the highest of several."""
    categories = {
        index: category
        for index, label in enumerate(result.labels)
        if (category := settings.MODERATION_LABELS.get(label, label)) in CATEGORIES
    }
    if not categories:
        raise InvalidRequest(
            f"No label of {model_id} is a moderation category: it has {', '.join(result.labels)[:500]}. Name their "
            f"categories in the setting STOA_MODERATION_LABELS, as in {result.labels[0]}=harassment.",
            field="model",
        )
    rows: list[dict[str, float]] = []
    for scores in result.scores:
        row: dict[str, float] = {}
        for index, category in categories.items():
            row[category] = max(row.get(category, 0.0), scores[index])
        rows.append(row)
    return rows
