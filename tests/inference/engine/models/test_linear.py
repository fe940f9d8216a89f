"""Matrix products of the torch decoder: packed ones are exact, int8 ones close, and rows are independent."""

import pytest
import torch
from torch.nn import functional

from inference.engine.models.checkpoint import Matrix
from inference.engine.models.layers import linear as linear_module
from inference.engine.models.layers.interface import CPU
from inference.engine.models.layers.linear import DenseLinear, Int8Linear, PackedInt8Linear, linear_maker, packs

ROWS, INPUTS, OUTPUTS = 20, 72, 50

needs_int8_kernels = pytest.mark.skipif(not packs(torch.int8), reason="this processor has no int8 kernels of oneDNN")


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


@needs_int8_kernels
@pytest.mark.parametrize("inputs", [1, 5, 37, 384])
@pytest.mark.parametrize("rows", [1, 3, 70])
@pytest.mark.parametrize("pattern", [(1.0, 1.0), (-1.0, -1.0), (1.0, 0.01), (1.0, -1.0), (0.6, 0.5)])
def test_packed_int8_sums_are_exact_with_the_largest_numbers(
    pattern: tuple[float, float], rows: int, inputs: int
) -> None:
    weight = torch.tensor(pattern).repeat(20, (inputs + 1) // 2)[:, :inputs].contiguous()
    linear = PackedInt8Linear(Matrix(weight))
    integers = (weight / linear._scale[:, None]).round().double()
    assert integers.abs().max() <= 127
    numbers = torch.full((rows, inputs), 255, dtype=torch.uint8)

    got = linear_module._integer_product(numbers, linear._packed, torch.ones(20))
    assert torch.equal(got.double(), numbers.double() @ integers.t())


@needs_int8_kernels
@pytest.mark.parametrize("biased", [True, False])
def test_packed_int8_products_are_close(matrix: Matrix, rows: torch.Tensor, biased: bool) -> None:
    matrix = matrix if biased else Matrix(matrix.weight)
    wanted = functional.linear(rows, matrix.weight, matrix.bias)
    assert 1e-6 < furthest(PackedInt8Linear(matrix)(rows), wanted) < 0.03
    one_sided = rows.abs() + 1
    wanted = functional.linear(one_sided, matrix.weight, matrix.bias)
    assert furthest(PackedInt8Linear(matrix)(one_sided), wanted) < 0.03


@needs_int8_kernels
def test_a_packed_int8_row_is_the_same_alone_and_in_a_batch(matrix: Matrix, rows: torch.Tensor) -> None:
    linear = PackedInt8Linear(matrix)
    many = rows.repeat(40, 1)
    together = linear(many)
    assert all(torch.equal(linear(rows[row : row + 1])[0], together[row]) for row in range(ROWS))
    assert torch.equal(together, linear(rows).repeat(40, 1))


@needs_int8_kernels
def test_packed_int8_handles_rows_of_zeros_and_keeps_what_is_no_number(matrix: Matrix) -> None:
    weight = matrix.weight.clone()
    weight[5] = 0
    rows = torch.zeros(4, INPUTS)
    rows[1], rows[2, 3], rows[3, 3] = 1, torch.nan, torch.inf
    got = PackedInt8Linear(Matrix(weight))(rows)
    assert torch.equal(got[0], torch.zeros(OUTPUTS))
    assert got[1, 5] == 0
    assert got[:2].isfinite().all()
    assert not got[2:].isfinite().any()


@needs_int8_kernels
def test_packed_int8_takes_a_quarter_of_the_memory(matrix: Matrix) -> None:
    assert PackedInt8Linear(matrix).nbytes == OUTPUTS * INPUTS + 3 * 4 * OUTPUTS
