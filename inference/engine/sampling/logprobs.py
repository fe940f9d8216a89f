"""Log probabilities as OpenAI means them: of the model itself, before penalties, temperature and cuts."""

from torch import Tensor

from inference.engine.sampling.vocabulary_blocks import Blocks, exponentials, ranked

Ranked = tuple[tuple[int, float], ...]


def log_probabilities(logits: Tensor, tokens: Tensor, top: int) -> list[tuple[float, Ranked]]:
    """For each row of `logits`, [rows, vocabulary], the natural log probability of its token and the `top` best
    tokens with theirs, best first. The logits are written over."""
    blocks = Blocks(logits.shape[1])
    peaks = blocks.peaks(logits)
    values, ids = ranked(blocks, logits, peaks, max(top, 1))
    chosen = logits.gather(1, tokens[:, None])
    highest = peaks.amax(1, keepdim=True)
    total = highest + exponentials(blocks, logits, highest, None).sum(1, keepdim=True).log().float()
    told = zip((chosen - total)[:, 0].tolist(), ids.tolist(), (values - total).tolist(), strict=True)
    return [(logprob, tuple(zip(best, worths, strict=True))[:top]) for logprob, best, worths in told]
