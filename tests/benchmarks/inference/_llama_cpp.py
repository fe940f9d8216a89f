"""Generation by llama.cpp from the same prompts with the same weights, if llama-cpp-python is installed."""

import ctypes
import time
from pathlib import Path
from types import ModuleType

import numpy as np

INSTALLATION = (
    "llama.cpp is left out: `pip install llama-cpp-python` builds it from its source, "
    "which takes a C++ compiler and some minutes."
)


def llama_cpp() -> ModuleType | None:
    """Return the library, or None if it is not installed."""
    try:
        import llama_cpp
    except ImportError:
        return None
    return llama_cpp


class LlamaCpp:
    """Greedy generation of several sequences in one context, one batch for each step."""

    def __init__(self, library: ModuleType, file: Path, *, sequences: int, length: int) -> None:
        """Load the GGUF file. length: tokens of each sequence."""
        self._library = library
        self._log = library.llama_log_callback(lambda level, text, data: None)  # a reference: the library calls it
        library.llama_log_set(self._log, ctypes.c_void_p())
        library.llama_backend_init()
        wanted = library.llama_model_default_params()
        wanted.n_gpu_layers = 0
        self._model = library.llama_model_load_from_file(str(file).encode(), wanted)
        if not self._model:
            raise SystemExit(f"llama.cpp could not read {file}.")
        shape = library.llama_context_default_params()
        shape.n_ctx = sequences * length
        shape.n_batch = shape.n_ubatch = max(512, sequences * length)
        shape.n_seq_max = sequences
        shape.n_threads = shape.n_threads_batch = 2
        self._context = library.llama_init_from_model(self._model, shape)
        self._vocabulary = library.llama_vocab_n_tokens(library.llama_model_get_vocab(self._model))

    def close(self) -> None:
        self._library.llama_free(self._context)
        self._library.llama_model_free(self._model)

    def run(self, prompt_ids: list[tuple[int, ...]], tokens: int) -> float:
        """Return the tokens per second."""
        library = self._library
        library.llama_memory_clear(library.llama_get_memory(self._context), True)
        began = time.perf_counter()
        places = [
            (token, place, row, place == len(ids) - 1)
            for row, ids in enumerate(prompt_ids)
            for place, token in enumerate(ids)
        ]
        following = self._decode(places)
        for step in range(1, tokens):
            following = self._decode(
                [
                    (token, len(ids) + step - 1, row, True)
                    for row, (token, ids) in enumerate(zip(following, prompt_ids, strict=True))
                ]
            )
        return len(prompt_ids) * tokens / (time.perf_counter() - began)

    def _decode(self, places: list[tuple[int, int, int, bool]]) -> list[int]:
        """Return the most likely next token after each entry (token, position, sequence, wanted) that is wanted."""
        library = self._library
        batch = library.llama_batch_init(len(places), 0, 1)
        batch.n_tokens = len(places)
        for index, (token, position, sequence, wanted) in enumerate(places):
            batch.token[index], batch.pos[index], batch.logits[index] = token, position, wanted
            batch.n_seq_id[index], batch.seq_id[index][0] = 1, sequence
        if library.llama_decode(self._context, batch):
            raise SystemExit("llama.cpp could not take the batch.")
        found = [self._most_likely(index) for index, place in enumerate(places) if place[3]]
        library.llama_batch_free(batch)
        return found

    def _most_likely(self, index: int) -> int:
        logits = self._library.llama_get_logits_ith(self._context, index)
        return int(np.ctypeslib.as_array(logits, shape=(self._vocabulary,)).argmax())
