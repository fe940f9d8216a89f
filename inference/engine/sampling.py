"""The bounds of the sampling parameters."""

from inference.engine.errors import InvalidRequest
from inference.engine.request import SamplingParams

MAX_STOP = 16
MAX_STOP_LENGTH = 256
MAX_BIASES = 1024
MAX_TOP_K = 1000
MAX_LOGPROBS = 20


def check_sampling(params: SamplingParams, *, vocabulary: int) -> None:
    """Raises InvalidRequest naming the first parameter that is out of range."""
    stop, bias = params.stop, params.logit_bias
    bounds = (
        ("max_tokens", params.max_tokens is None or params.max_tokens >= 1, "1 or more"),
        ("min_tokens", params.min_tokens >= 0, "0 or more"),
        ("min_tokens", params.max_tokens is None or params.min_tokens <= params.max_tokens, "at most `max_tokens`"),
        ("temperature", 0 <= params.temperature <= 2, "from 0 to 2"),
        ("top_p", 0 <= params.top_p <= 1, "from 0 to 1"),
        ("top_k", 0 <= params.top_k <= MAX_TOP_K, f"from 0 (off) to {MAX_TOP_K}"),
        ("min_p", 0 <= params.min_p <= 1, "from 0 to 1"),
        ("repeat_penalty", 0 < params.repeat_penalty <= 2, "above 0, to 2"),
        ("presence_penalty", -2 <= params.presence_penalty <= 2, "from -2 to 2"),
        ("frequency_penalty", -2 <= params.frequency_penalty <= 2, "from -2 to 2"),
        ("logprobs", 0 <= (params.logprobs or 0) <= MAX_LOGPROBS, f"from 0 to {MAX_LOGPROBS}"),
        ("stop", len(stop) <= MAX_STOP, f"at most {MAX_STOP} strings"),
        ("stop", all(0 < len(one) <= MAX_STOP_LENGTH for one in stop), f"strings of 1 to {MAX_STOP_LENGTH} characters"),
        ("logit_bias", len(bias) <= MAX_BIASES, f"of at most {MAX_BIASES} tokens"),
        ("logit_bias", all(0 <= token < vocabulary for token in bias), f"of token ids below {vocabulary}"),
        ("logit_bias", all(-100 <= value <= 100 for value in bias.values()), "from -100 to 100 for each token"),
    )
    for name, good, expected in bounds:
        if not good:
            raise InvalidRequest(f"`{name}` must be {expected}.", parameter=name)
