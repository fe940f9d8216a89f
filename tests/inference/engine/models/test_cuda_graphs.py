"""Recorded and replayed steps give the same logits as unrecorded ones."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3Config

from inference.engine.models.architecture import read_architecture
from inference.engine.models.checkpoint import Checkpoint, FolderTensors
from inference.engine.models.cuda_graphs import GraphRecorder, RecordedSteps, RecordStep
from inference.engine.models.decoders import read_config
from inference.engine.models.interface import TokenSpan
from inference.engine.models.layers.interface import CPU, Placement
from inference.engine.models.layers.linear import linear_maker
from inference.engine.models.llama_decoder import LlamaDecoder

SLOTS, CONTEXT = 6, 100
IDS = torch.randint(0, 300, (90,), generator=torch.Generator().manual_seed(5)).tolist()
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


class Recorder:
    """A recorder without a GPU: it runs the step again, into the same output."""

    def __init__(self) -> None:
        self.recorded = self.replayed = 0

    def __call__(self, step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        self.recorded += 1
        made = step()

        def replay() -> Tensor:
            self.replayed += 1
            return made.copy_(step())

        return replay


@pytest.fixture(scope="module", params=["llama", "qwen3"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    sizes = {"vocab_size": 300, "hidden_size": 36, "intermediate_size": 50, "num_hidden_layers": 3, "head_dim": 8}
    more = {"num_attention_heads": 6, "num_key_value_heads": 2, "initializer_range": 0.4}
    config = (LlamaConfig if request.param == "llama" else Qwen3Config)(**sizes, **more)
    torch.manual_seed(7)
    path = tmp_path_factory.mktemp("replays")
    AutoModelForCausalLM.from_config(config).save_pretrained(path)
    return path


def opened(folder: Path, record: RecordStep | None, *, gpu_layers: int = 0) -> LlamaDecoder:
    architecture = read_architecture(read_config(folder))
    assert architecture is not None
    places = [Placement(CPU, linear_maker(torch.float32, CPU))] * (3 - gpu_layers)
    gpu = torch.device("cuda", 0)
    places += [Placement(gpu, linear_maker(torch.float32, gpu))] * gpu_layers
    checkpoint = Checkpoint(FolderTensors(folder), architecture)
    return LlamaDecoder(checkpoint, places, slots=SLOTS, context_size=CONTEXT, record=record)


def check_that_both_give_the_same(recorded: LlamaDecoder, plain: LlamaDecoder) -> None:
    """Compare prompts and decodes of 3 requests in changing order and number, across the recorded shapes."""
    prompts = [TokenSpan(4, 0, IDS[:60]), TokenSpan(0, 0, IDS[:9]), TokenSpan(5, 0, IDS[:2])]
    assert torch.allclose(recorded.run(prompts), plain.run(prompts), atol=1e-4)
    places = {4: 60, 0: 9, 5: 2}
    for step in range(24):
        slots = [[4], [0, 4], [5, 0, 4], [4, 5]][step % 4]
        spans = [TokenSpan(slot, places[slot], [IDS[places[slot]]]) for slot in slots]
        for slot in slots:
            places[slot] += 1
        assert torch.allclose(recorded.run(spans), plain.run(spans), atol=1e-4), step
    # A prompt's piece beside a token is no such step, and what was replayed before is there for it.
    mixed = [TokenSpan(4, places[4], [7]), TokenSpan(0, places[0], IDS[:5], all_logits=True)]
    assert torch.allclose(recorded.run(mixed), plain.run(mixed), atol=1e-4)


def test_replayed_steps_give_the_same_logits_as_unrecorded_ones(folder: Path) -> None:
    record = Recorder()
    check_that_both_give_the_same(opened(folder, record), opened(folder, None))
    # For 1, 2, 4 and 8 rows, and up to 64 places and up to 100.
    assert (record.recorded, record.replayed) == (8, 24)


@on_gpu
@pytest.mark.parametrize("gpu_layers", [1, 3])
def test_cuda_graphs_give_the_same_logits_as_unrecorded_steps(folder: Path, gpu_layers: int) -> None:
    recorder, recorded = GraphRecorder(), []

    def record(step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        recorded.append(recorder(step))
        return recorded[-1]

    check_that_both_give_the_same(*(opened(folder, each, gpu_layers=gpu_layers) for each in (record, None)))
    assert len(recorded) == 8


def test_a_step_that_cannot_be_recorded_runs_unrecorded(folder: Path) -> None:
    asked = []

    def refuse(step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        asked.append(step)
        raise RuntimeError("operation not permitted when stream is capturing")

    check_that_both_give_the_same(opened(folder, refuse), opened(folder, None))
    assert len(asked) == 1


def test_a_step_above_the_copy_limit_is_not_recorded() -> None:
    def compute(rows: Tensor, slots: Tensor, positions: Tensor, keys: int) -> Tensor:
        return rows + slots[:, None] + positions[:, None]

    replays = RecordedSteps(
        compute, Recorder(), device=CPU, max_rows=4, context=4096, row=torch.zeros(8), min_keys=64, position_bytes=2**16
    )
    rows = torch.ones(3, 8)
    got = replays.run(rows, [0, 1, 2], [5, 6, 255])
    assert got is not None
    assert got[:, 0].tolist() == [6, 8, 258]
    assert replays.run(rows, [0, 1, 2], [5, 6, 256]) is None
    assert replays.run(rows[:2], [0, 1], [5, 256]) is not None
