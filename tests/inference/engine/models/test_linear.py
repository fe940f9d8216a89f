"""Matrix products of the torch decoder: packed ones are exact, int8 ones close, and rows are independent."""

import pytest
import torch
from torch.nn import functional

from inference.engine.models.checkpoint import Matrix
from inference.engine.models.linear import DenseLinear, Int8Linear, linear_maker
from inference.engine.models.llama_decoder import CPU

ROWS, INPUTS, OUTPUTS = 20, 72, 50


@pytest.fixture
def matrix() -> Matrix:
    draw = torch.Generator().manual_seed(3)
    return Matrix(torch.randn(OUTPUTS, INPUTS, generator=draw), torch.randn(OUTPUTS, generator=draw))


@pytest.fixture
def rows() -> torch.Tensor:
    draw = torch.Generator().manual_seed(4)
    # Rows of very different sizes, as activations are.
    return torch.randn(ROWS, INPUTS, generator=draw) * torch.logspace(-3, 3, ROWS)[:, None]


def furthest(got: torch.Tensor, wanted: torch.Tensor) -> float:
    return float(((got - wanted).abs().amax(1) / wanted.abs().amax(1)).max())


@pytest.mark.parametrize("biased", [True, False])
def test_packed_float32_is_the_plain_product(matrix: Matrix, rows: torch.Tensor, biased: bool) -> None:
    matrix = matrix if biased else Matrix(matrix.weight)
    wanted = functional.linear(rows, matrix.weight, matrix.bias)
    assert furthest(linear_maker(torch.float32, CPU)(matrix)(rows), wanted) < 1e-6
    assert furthest(DenseLinear(matrix, torch.float32, CPU)(rows), wanted) < 1e-6


def test_bfloat16_and_int8_products_are_close(matrix: Matrix, rows: torch.Tensor) -> None:
    wanted = functional.linear(rows, matrix.weight, matrix.bias)
    assert 1e-6 < furthest(linear_maker(torch.bfloat16, CPU)(matrix)(rows), wanted) < 0.02
    assert 1e-6 < furthest(linear_maker(torch.float32, CPU, int8=True)(matrix)(rows), wanted) < 0.03


def test_an_int8_row_is_the_same_alone_and_in_a_batch(matrix: Matrix, rows: torch.Tensor) -> None:
    linear = Int8Linear(matrix)
    together = linear(rows)
    assert all(torch.equal(linear(rows[row : row + 1])[0], together[row]) for row in range(ROWS))


def test_int8_handles_rows_of_zeros(matrix: Matrix) -> None:
    weight = matrix.weight.clone()
    weight[5] = 0
    rows = torch.zeros(2, INPUTS)
    rows[1] = 1
    got = Int8Linear(Matrix(weight))(rows)
    assert torch.equal(got[0], torch.zeros(OUTPUTS))
    assert got[1, 5] == 0


def test_int8_takes_a_quarter_of_the_memory(matrix: Matrix) -> None:
    wide, narrow = DenseLinear(matrix, torch.float32, CPU), Int8Linear(matrix)
    assert narrow.nbytes == OUTPUTS * INPUTS + 4 * OUTPUTS
    assert wide.nbytes == 4 * OUTPUTS * INPUTS
