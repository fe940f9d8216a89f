"""Decisions: the questions of a request as text for a model, and its scores as answers."""

from collections.abc import Sequence
from math import log

from inference.engine import ScoringQuestion
from inference.protocol.openai.decisions import (
    Answer,
    ChoiceAnswer,
    ChoiceProbability,
    ChoiceQuestion,
    Content,
    CustomToolCallItem,
    FunctionCallItem,
    InputImagePart,
    InputItem,
    InputJSONPart,
    InputMessage,
    LevelProbability,
    PredicateAnswer,
    PredicateQuestion,
    Question,
    RefusalPart,
    ScoreAnswer,
    json_text,
)

YES, NO = "Yes", "No"


def context_text(content: str | list[InputItem]) -> str:
    """Return the text that a model reads before each question."""
    text = content if isinstance(content, str) else "\n\n".join(map(_item_text, content))
    return f"Read the input and answer the question about it.\n\n<input>\n{text}\n</input>\n\n"


def scoring_question(question: Question) -> ScoringQuestion:
    """Return a question as text, with the texts of its answers, none of which begins with another."""
    instructions = _content_text(question.instructions)
    if isinstance(question, PredicateQuestion):
        return ScoringQuestion(f"Is this true of the input? {instructions}\nAnswer {YES} or {NO}.", (YES, NO))
    if isinstance(question, ChoiceQuestion):
        values: list[str | bool] = [choice.value for choice in question.choices]
        descriptions, order = [choice.description for choice in question.choices], "Options"
    else:
        values = [level.label for level in question.levels]
        descriptions, order = [level.description for level in question.levels], "Levels from the lowest to the highest"
    answers = tuple(map(json_text, values))  # quotes end a string, so that none begins with another
    listed = [
        f"- {answer}: {text}" if text else f"- {answer}" for answer, text in zip(answers, descriptions, strict=True)
    ]
    lines = "\n".join(listed)
    return ScoringQuestion(f"{instructions}\n{order}:\n{lines}\nAnswer with one of them, as it is written.", answers)


def answer(question: Question, probabilities: Sequence[float]) -> Answer:
    """Return the answer to a question from the probabilities of its answers."""
    if isinstance(question, PredicateQuestion):
        return PredicateAnswer(question.name, probabilities[0])
    if isinstance(question, ChoiceQuestion):
        chances = [
            ChoiceProbability(choice.value, probability)
            for choice, probability in zip(question.choices, probabilities, strict=True)
        ]
        best = max(chances, key=lambda one: one.probability)
        return ChoiceAnswer(question.name, best.value, confidence(probabilities), chances)
    levels = [
        LevelProbability(level.label, value, probability)
        for value, (level, probability) in enumerate(zip(question.levels, probabilities, strict=True))
    ]
    mean = sum(level.value * level.probability for level in levels)
    return ScoreAnswer(question.name, mean, confidence(probabilities), levels)


def confidence(probabilities: Sequence[float]) -> float:
    """Return 1 minus the entropy of probabilities over that of equal ones."""
    entropy = -sum(one * log(one) for one in probabilities if one > 0)
    return min(max(1 - entropy / log(len(probabilities)), 0.0), 1.0)


def _item_text(item: InputItem) -> str:
    if isinstance(item, InputMessage):
        return f"{item.role}: {_content_text(item.content)}"
    if isinstance(item, FunctionCallItem):
        return f"call {item.call_id} of {item.name}: {item.arguments}"
    if isinstance(item, CustomToolCallItem):
        return f"call {item.call_id} of {item.name}: {item.input}"
    return f"output of call {item.call_id}: {_content_text(item.output)}"


def _content_text(content: Content) -> str:
    if isinstance(content, str):
        return content
    texts = []
    for part in content:
        if isinstance(part, InputJSONPart):
            texts.append(json_text(part.data))
        elif isinstance(part, RefusalPart):
            texts.append(part.refusal)
        elif not isinstance(part, InputImagePart):  # images are refused before
            texts.append(part.text)
    return "\n".join(texts)
