"""Log probabilities as in OpenAI's API: of the model itself, before penalties, temperature and truncation."""

from torch import Tensor

from inference.engine.sampling.vocabulary_blocks import VocabularyBlocks, exponentials, top_tokens

RankedTokens = tuple[tuple[int, float], ...]


def log_probabilities(logits: Tensor, tokens: Tensor, top: int) -> list[tuple[float, RankedTokens]]:
    """Return, for each row of `logits`, the natural log probability of its token and the `top` best tokens with theirs.

    logits: [rows, vocabulary]; overwritten. The best tokens are in descending order.
    """
    blocks = VocabularyBlocks(logits.shape[1])
    peaks = blocks.peaks(logits)
    values, ids = top_tokens(blocks, logits, peaks, max(top, 1))
    chosen = logits.gather(1, tokens[:, None])
    highest = peaks.amax(1, keepdim=True)
    total = highest + exponentials(blocks, logits, highest, None).sum(1, keepdim=True).log().float()
    rows = zip((chosen - total)[:, 0].tolist(), ids.tolist(), (values - total).tolist(), strict=True)
    return [(logprob, tuple(zip(best, logprobs, strict=True))[:top]) for logprob, best, logprobs in rows]
