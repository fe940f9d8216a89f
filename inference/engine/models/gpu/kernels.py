"""Triton kernels of a decoder layer: matrix product, norm, rotary positions and attention.

With bfloat16 weights, a row's result does not depend on the number of rows: products sum their inputs in the same order
in tiles of any size. With int8 weights they do not.
"""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

FEW_ROWS = 64  # up to here a product is bound by reading its weights, and its inputs are spread over the processors
MIN_PART_INPUTS = 512
MIN_PROGRAM_COUNT = 512
MAX_PARTS = 8
DECODE_KEYS = 128  # of a block within a program
MIN_SPLIT_KEYS = 128  # that one program attends to in a decode step
MAX_SPLITS = 32
PREFILL_TILE = 64  # rows of a program: tokens times the query heads of a key head
PREFETCHED_BYTES = tl.constexpr(512)  # of the weights of each output; 4,096 make a step slower
LOG2_E = 1.4426950408889634


@cache
def _early_start(device: torch.device) -> dict[str, bool]:
    """Return the options of launches whose programs start before the end of the kernel before, from Hopper on."""
    is_early = device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)
    return {"IS_EARLY": True, "launch_pdl": True} if is_early else {"IS_EARLY": False}


def probe(device: torch.device) -> None:
    """Compile and run a small kernel. Raise whatever Triton does where it cannot compile."""
    add_and_normalize(torch.ones(1, 16, device=device), None, torch.ones(16, device=device), 1e-5)


def part_count(outputs: int, inputs: int) -> int:
    """Return the number of parts into which a product's inputs are cut. Each has a sum of its own, added in order."""
    parts = 1
    while (
        parts < MAX_PARTS
        and triton.cdiv(outputs, 16) * parts < MIN_PROGRAM_COUNT
        and inputs >= 2 * parts * MIN_PART_INPUTS
    ):
        parts *= 2
    return parts


def multiply(rows: Tensor, weight: Tensor, scale: Tensor | None, bias: Tensor | None, parts: int) -> Tensor:
    """Return the sums of products of bfloat16 rows and a matrix [outputs, inputs], float32 [sums, rows, outputs].

    The product is the total of the sums. scale: of each output of an int8 matrix.
    """
    count, outputs = len(rows), len(weight)
    is_spread = count <= FEW_ROWS
    out = torch.empty(parts if is_spread else 1, count, outputs, dtype=torch.float32, device=rows.device)
    _launch_product(rows, weight, scale, bias, out, outputs, parts=parts, is_spread=is_spread, is_gated=False)
    return out


def multiply_gated(rows: Tensor, weight: Tensor, scale: Tensor | None, bias: Tensor | None) -> Tensor:
    """Return silu(gate) * up of the products with [gate; up], bfloat16 [rows, outputs]."""
    outputs = len(weight) // 2
    out = torch.empty(len(rows), outputs, dtype=torch.bfloat16, device=rows.device)
    _launch_product(rows, weight, scale, bias, out, outputs, parts=1, is_spread=False, is_gated=True)
    return out


def _launch_product(
    rows: Tensor,
    weight: Tensor,
    scale: Tensor | None,
    bias: Tensor | None,
    out: Tensor,
    outputs: int,
    *,
    parts: int,
    is_spread: bool,
    is_gated: bool,
) -> None:
    count, inputs = rows.shape
    tile = _tile(count, outputs, is_gated=is_gated)
    part_inputs = triton.cdiv(triton.cdiv(inputs, parts), tile["INPUTS"]) * tile["INPUTS"]
    grid = triton.cdiv(outputs, tile["OUTPUTS"]), triton.cdiv(count, tile["ROWS"]), parts if is_spread else 1
    _multiply[grid](
        rows, weight, scale, bias, out, count, outputs, inputs, part_inputs,
        HAS_BIAS=bias is not None, IS_INT8=scale is not None, IS_GATED=is_gated, PARTS=parts, IS_SPREAD=is_spread,
        IS_EVEN=inputs % tile["INPUTS"] == 0,
        enable_fp_fusion=False,  # sums of parts are the same numbers within a program and after it
        **_early_start(rows.device), **tile,
    )  # fmt: skip


def _tile(rows: int, outputs: int, *, is_gated: bool) -> dict[str, int | bool]:
    """Return the tile of a product, measured on an H200."""
    if rows <= 16 and outputs > 8192 and not is_gated:
        return {"ROWS": 16, "OUTPUTS": 64, "INPUTS": 128, "IS_SWAPPED": True, "num_warps": 4, "num_stages": 4}
    if rows <= 16:
        narrow = {"ROWS": 16, "OUTPUTS": 16, "INPUTS": 128, "IS_SWAPPED": False, "num_warps": 2}
        return {**narrow, "num_stages": 5 if is_gated else 6}
    if rows <= FEW_ROWS:
        few = {"OUTPUTS": 64 if outputs > 8192 else 32, "INPUTS": 128, "num_warps": 4, "num_stages": 3}
        return {"ROWS": 32 if rows <= 32 else 64, "IS_SWAPPED": False, **few}
    many = {"OUTPUTS": 64 if is_gated else 128, "INPUTS": 64, "num_warps": 8, "num_stages": 3}
    return {"ROWS": 128, "IS_SWAPPED": False, **many}


@triton.jit(do_not_specialize=["row_count"])
def _multiply(
    rows, weight, scale, bias, out, row_count, outputs, inputs, part_inputs,
    HAS_BIAS: tl.constexpr, IS_INT8: tl.constexpr, IS_GATED: tl.constexpr, PARTS: tl.constexpr,
    IS_SPREAD: tl.constexpr, IS_EVEN: tl.constexpr, IS_SWAPPED: tl.constexpr,
    IS_EARLY: tl.constexpr, ROWS: tl.constexpr, OUTPUTS: tl.constexpr, INPUTS: tl.constexpr,
):  # fmt: skip
    output = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    part = tl.program_id(2)
    if IS_EARLY:
        gdc_launch_dependents()
        # The weights are no result of the kernel before.
        _prefetch(weight, outputs, inputs, part * part_inputs, part_inputs, output, OUTPUTS)
        if IS_GATED:
            _prefetch(weight, 2 * outputs, inputs, part * part_inputs, part_inputs, output + outputs, OUTPUTS)
        gdc_wait()
    total, total_up = _sum_part(
        rows, weight, row_count, outputs, inputs, part * part_inputs, part_inputs, row, output,
        IS_INT8, IS_GATED, IS_EVEN, IS_SWAPPED, ROWS, OUTPUTS, INPUTS,
    )  # fmt: skip
    is_row, is_output = row < row_count, output < outputs
    if IS_INT8:
        factor = _along_outputs(tl.load(scale + output, mask=is_output, other=0.0), IS_SWAPPED)
        total *= factor
        if IS_GATED:
            total_up *= _along_outputs(tl.load(scale + outputs + output, mask=is_output, other=0.0), IS_SWAPPED)
    if HAS_BIAS:
        total += _along_outputs(tl.load(bias + output, mask=is_output & (part == 0), other=0.0), IS_SWAPPED)
        if IS_GATED:
            total_up += _along_outputs(tl.load(bias + outputs + output, mask=is_output, other=0.0), IS_SWAPPED)
    if not IS_SPREAD:
        for number in range(1, PARTS):
            more, _ = _sum_part(
                rows, weight, row_count, outputs, inputs, number * part_inputs, part_inputs, row, output,
                IS_INT8, IS_GATED, IS_EVEN, IS_SWAPPED, ROWS, OUTPUTS, INPUTS,
            )  # fmt: skip
            if IS_INT8:
                more *= factor
            total += more
    if IS_SWAPPED:
        place, inside = row[None, :] * outputs + output[:, None], is_row[None, :] & is_output[:, None]
    else:
        place, inside = row[:, None] * outputs + output[None, :], is_row[:, None] & is_output[None, :]
    if IS_GATED:
        tl.store(out + place, (total * tl.sigmoid(total) * total_up).to(tl.bfloat16), mask=inside)
    else:
        tl.store(out + part.to(tl.int64) * row_count * outputs + place, total, mask=inside)


@triton.jit
def _prefetch(weight, outputs, inputs, begin, length, output, OUTPUTS: tl.constexpr):
    """Begin to read the first kilobytes of each output's weights into the second cache."""
    line = tl.arange(0, PREFETCHED_BYTES // 128)
    size = tl.constexpr(weight.dtype.element_ty.primitive_bitwidth // 8)
    column = tl.minimum(begin + line * (128 // size), inputs - 1)
    address = weight + tl.minimum(output, outputs - 1)[:, None].to(tl.int64) * inputs + column[None, :]
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [address.to(tl.int64)], tl.int32, is_pure=False, pack=1
    )


@triton.jit
def _along_outputs(values, IS_SWAPPED: tl.constexpr):
    if IS_SWAPPED:  # noqa: SIM108 (Triton compiles one branch)
        values = values[:, None]
    else:
        values = values[None, :]
    return values


@triton.jit
def _add_product(states, matrix, total, IS_SWAPPED: tl.constexpr):
    if IS_SWAPPED:  # noqa: SIM108 (Triton compiles one branch)
        total = tl.dot(matrix, tl.trans(states), total)
    else:
        total = tl.dot(states, tl.trans(matrix), total)
    return total


@triton.jit
def _sum_part(
    rows, weight, row_count, outputs, inputs, begin, length, row, output,
    IS_INT8: tl.constexpr, IS_GATED: tl.constexpr, IS_EVEN: tl.constexpr, IS_SWAPPED: tl.constexpr,
    ROWS: tl.constexpr, OUTPUTS: tl.constexpr, INPUTS: tl.constexpr,
):  # fmt: skip
    """Return the products' sums over a part of the inputs. Of [gate; up], both."""
    column = tl.arange(0, INPUTS)
    is_row, is_output = (row < row_count)[:, None], (output < outputs)[:, None]
    row_data = rows + row[:, None].to(tl.int64) * inputs + column[None, :]
    data = weight + output[:, None].to(tl.int64) * inputs + column[None, :]
    up_data = data + outputs.to(tl.int64) * inputs
    total = tl.zeros((OUTPUTS, ROWS) if IS_SWAPPED else (ROWS, OUTPUTS), tl.float32)
    total_up = total
    for start in range(begin, min(begin + length, inputs), INPUTS):
        if IS_EVEN:
            states = tl.load(row_data + start, mask=is_row, other=0.0)
            matrix = tl.load(data + start, mask=is_output, other=0)
        else:
            is_input = (start + column < inputs)[None, :]
            states = tl.load(row_data + start, mask=is_row & is_input, other=0.0)
            matrix = tl.load(data + start, mask=is_output & is_input, other=0)
        if IS_INT8:
            matrix = matrix.to(tl.bfloat16)
        total = _add_product(states, matrix, total, IS_SWAPPED)
        if IS_GATED:
            if IS_EVEN:
                matrix = tl.load(up_data + start, mask=is_output, other=0)
            else:
                matrix = tl.load(up_data + start, mask=is_output & (start + column < inputs)[None, :], other=0)
            if IS_INT8:
                matrix = matrix.to(tl.bfloat16)
            total_up = _add_product(states, matrix, total_up, IS_SWAPPED)
    return total, total_up


def add_and_normalize(rows: Tensor, sums: Tensor | None, weight: Tensor, eps: float) -> Tensor:
    """Add the sums of a product to float32 rows in place, and return the rows normalized, bfloat16."""
    count, hidden = rows.shape
    out = torch.empty(count, hidden, dtype=torch.bfloat16, device=rows.device)
    block = triton.next_power_of_2(hidden)
    _add_and_normalize[(count,)](
        rows, rows if sums is None else sums, weight, out, count, hidden, eps,
        SUMS=0 if sums is None else len(sums), HIDDEN=block, num_warps=min(16, max(1, block // 256)),
        **_early_start(rows.device),
    )  # fmt: skip
    return out


@triton.jit(do_not_specialize=["row_count"])
def _add_and_normalize(
    rows, sums, weight, out, row_count, hidden, eps,
    SUMS: tl.constexpr, IS_EARLY: tl.constexpr, HIDDEN: tl.constexpr,
):  # fmt: skip
    if IS_EARLY:
        gdc_launch_dependents()
        gdc_wait()
    row, column = tl.program_id(0).to(tl.int64), tl.arange(0, HIDDEN)
    inside, place = column < hidden, row * hidden + column
    states = tl.load(rows + place, mask=inside, other=0.0)
    if SUMS:
        states += _total(sums + place, row_count.to(tl.int64) * hidden, inside, SUMS)
        tl.store(rows + place, states, mask=inside)
    scale = tl.rsqrt(tl.sum(states * states) / hidden + eps)
    factor = tl.load(weight + column, mask=inside, other=0.0)
    tl.store(out + place, (states * scale * factor).to(tl.bfloat16), mask=inside)


@triton.jit
def _total(sums, distance, inside, SUMS: tl.constexpr):
    total = tl.load(sums, mask=inside, other=0.0)
    for number in tl.static_range(1, SUMS):
        total += tl.load(sums + number * distance, mask=inside, other=0.0)
    return total


def rotate(
    sums: Tensor,
    angles: Tensor,
    positions: Tensor,
    cache_rows: Tensor,
    norms: Tensor | None,
    cache: Tensor,
    heads: int,
    eps: float,
) -> Tensor:
    """Write keys and values to the cache, and return the queries, bfloat16 [rows, heads, head_dim].

    sums: of the product, of queries, keys and values. angles: cosine and sine of each position, [context, half, 2].
    norms: weights of the norms of query and key heads, [2, head_dim].
    """
    _, both_kv_heads, head_dim = cache.shape
    count, kv_heads = sums.shape[1], both_kv_heads // 2
    queries = torch.empty(count, heads, head_dim, dtype=torch.bfloat16, device=sums.device)
    _rotate[(count, heads + both_kv_heads)](
        sums, angles, positions, cache_rows, angles if norms is None else norms, queries, cache,
        count, heads, kv_heads, head_dim, eps,
        SUMS=len(sums), HAS_NORMS=norms is not None, HALF=triton.next_power_of_2(head_dim // 2), num_warps=1,
        **_early_start(sums.device),
    )  # fmt: skip
    return queries


@triton.jit(do_not_specialize=["row_count"])
def _rotate(
    sums, angles, positions, cache_rows, norms, queries, cache, row_count, heads, kv_heads, head_dim, eps,
    SUMS: tl.constexpr, HAS_NORMS: tl.constexpr, IS_EARLY: tl.constexpr, HALF: tl.constexpr,
):  # fmt: skip
    if IS_EARLY:
        gdc_launch_dependents()
        gdc_wait()
    row, head, half = tl.program_id(0).to(tl.int64), tl.program_id(1), head_dim // 2
    all_heads = heads + 2 * kv_heads
    column = tl.arange(0, HALF)
    inside, distance = column < half, row_count.to(tl.int64) * all_heads * head_dim
    source = sums + (row * all_heads + head) * head_dim + column
    low, high = _total(source, distance, inside, SUMS), _total(source + half, distance, inside, SUMS)
    if head < heads + kv_heads:
        if HAS_NORMS:
            scale = tl.rsqrt((tl.sum(low * low) + tl.sum(high * high)) / head_dim + eps)
            weight = norms + (head >= heads).to(tl.int32) * head_dim + column
            low *= scale * tl.load(weight, mask=inside, other=0.0)
            high *= scale * tl.load(weight + half, mask=inside, other=0.0)
        angle = angles + tl.load(positions + row) * head_dim + 2 * column
        cosine, sine = tl.load(angle, mask=inside, other=0.0), tl.load(angle + 1, mask=inside, other=0.0)
        low, high = low * cosine - high * sine, high * cosine + low * sine
    if head < heads:
        target = queries + (row * heads + head) * head_dim + column
    else:
        target = cache + (tl.load(cache_rows + row) * 2 * kv_heads + head - heads) * head_dim + column
    tl.store(target, low.to(tl.bfloat16), mask=inside)
    tl.store(target + half, high.to(tl.bfloat16), mask=inside)


def split_keys(context_size: int) -> int:
    """Return the number of keys of a program in decode steps. It changes results' last bits, so not with the step."""
    return max(MIN_SPLIT_KEYS, triton.next_power_of_2(context_size) // MAX_SPLITS)


def attend_decodes(
    queries: Tensor,
    cache: Tensor,
    positions: Tensor,
    cache_rows: Tensor,
    out: Tensor,
    *,
    keys: int,
    split: int,
    window: int,
) -> None:
    """Write the attention of rows that are one token of a slot each to `out`, [rows, heads * head_dim].

    keys: at least the largest position plus 1. split: see `split_keys`. window: number of last positions to attend to;
        0 is all.
    """
    count, heads, head_dim = queries.shape
    kv_heads, splits = cache.shape[1] // 2, triton.cdiv(keys, split)
    partial = torch.empty(count, heads, splits, head_dim, dtype=torch.float32, device=queries.device)
    weights = torch.empty(count, heads, splits, 2, dtype=torch.float32, device=queries.device)
    group, dim = heads // kv_heads, max(16, triton.next_power_of_2(head_dim))
    _attend[(count, kv_heads, splits)](
        queries, cache, positions, cache_rows, positions, positions, partial, weights,
        heads, kv_heads, head_dim, splits, window, head_dim**-0.5 * LOG2_E,
        IS_DECODE=True, GROUP=group, ROWS=max(16, triton.next_power_of_2(group)), DIM=dim, KEYS=DECODE_KEYS,
        SPLIT=split, num_warps=4, num_stages=2, **_early_start(queries.device),
    )  # fmt: skip
    _combine[(count, heads)](
        partial, weights, positions, out, heads, head_dim, splits, window, DIM=dim, SPLIT=split, num_warps=1,
        **_early_start(queries.device),
    )  # fmt: skip


def prefill_tokens(heads: int, kv_heads: int) -> int:
    """Return the number of tokens of a tile in `attend_prefills`."""
    return max(1, PREFILL_TILE // (heads // kv_heads))


def attend_prefills(
    queries: Tensor,
    cache: Tensor,
    positions: Tensor,
    cache_rows: Tensor,
    tiles: Tensor,
    out: Tensor,
    *,
    window: int,
) -> None:
    """Write the attention of several tokens of a slot to `out`.

    tiles: the first row and the number of tokens of each tile, [2, tiles].
    """
    _, heads, head_dim = queries.shape
    kv_heads = cache.shape[1] // 2
    group, dim = heads // kv_heads, max(16, triton.next_power_of_2(head_dim))
    rows = triton.next_power_of_2(prefill_tokens(heads, kv_heads) * group)
    _attend[(tiles.shape[1], kv_heads, 1)](
        queries, cache, positions, cache_rows, tiles[0], tiles[1], out, out,
        heads, kv_heads, head_dim, 1, window, head_dim**-0.5 * LOG2_E,
        IS_DECODE=False, GROUP=group, ROWS=rows, DIM=dim, KEYS=64, SPLIT=MIN_SPLIT_KEYS, num_warps=4, num_stages=2,
        **_early_start(queries.device),
    )  # fmt: skip


@triton.jit
def _attend(
    queries, cache, positions, cache_rows, firsts, counts, out, weights,
    heads, kv_heads, head_dim, splits, window, scale,
    IS_DECODE: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr, DIM: tl.constexpr, KEYS: tl.constexpr,
    SPLIT: tl.constexpr, IS_EARLY: tl.constexpr,
):  # fmt: skip
    if IS_EARLY:
        gdc_launch_dependents()
        gdc_wait()  # before a program may end
    tile, kv_head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    if IS_DECODE:
        first, count = tile, 1
    else:
        first, count = tl.load(firsts + tile).to(tl.int32), tl.load(counts + tile).to(tl.int32)
    start = tl.load(positions + first).to(tl.int32)
    slot = tl.load(cache_rows + first) - start
    end = start + count
    low = 0
    if IS_DECODE:
        low = split * SPLIT
        end = min(low + SPLIT, end)
    if window:
        low = max(low, max(start - window + 1, 0) // KEYS * KEYS)
    if low >= end:
        return
    index, column, key = tl.arange(0, ROWS), tl.arange(0, DIM), tl.arange(0, KEYS)
    token, head = index // GROUP, kv_head * GROUP + index % GROUP
    is_row, is_column = token < count, column < head_dim
    position = start + token
    place = ((first + token).to(tl.int64) * heads + head) * head_dim
    states = tl.load(queries + place[:, None] + column[None, :], mask=is_row[:, None] & is_column[None, :], other=0.0)
    highest = tl.full((ROWS,), float("-inf"), tl.float32)
    weight = tl.zeros((ROWS,), tl.float32)
    total = tl.zeros((ROWS, DIM), tl.float32)
    for begin in range(low, end, KEYS):
        number = begin + key
        source = cache + ((slot + number) * 2 * kv_heads + kv_head)[:, None] * head_dim + column[None, :]
        inside = (number < end)[:, None] & is_column[None, :]
        keys = tl.load(source, mask=inside, other=0.0)
        scores = tl.dot(states, tl.trans(keys)) * scale
        is_visible = (number[None, :] <= position[:, None]) & (number < end)[None, :]
        if window:
            is_visible &= number[None, :] > position[:, None] - window
        scores = tl.where(is_visible, scores, float("-inf"))
        peak = tl.maximum(highest, tl.max(scores, 1))
        finite_peak = tl.where(peak == float("-inf"), 0.0, peak)
        shrink = tl.exp2(highest - finite_peak)
        scores = tl.exp2(scores - finite_peak[:, None])
        weight = weight * shrink + tl.sum(scores, 1)
        values = tl.load(source + kv_heads * head_dim, mask=inside, other=0.0)
        total = tl.dot(scores.to(tl.bfloat16), values, total * shrink[:, None])
        highest = peak
    is_stored = is_row[:, None] & is_column[None, :]
    if IS_DECODE:
        place = (tile.to(tl.int64) * heads + head) * splits + split
        tl.store(out + place[:, None] * head_dim + column[None, :], total, mask=is_stored)
        tl.store(weights + 2 * place, highest, mask=is_row)
        tl.store(weights + 2 * place + 1, weight, mask=is_row)
    else:
        attended = total / weight[:, None]
        tl.store(out + place[:, None] + column[None, :], attended.to(tl.bfloat16), mask=is_stored)


@triton.jit
def _combine(
    partial, weights, positions, out, heads, head_dim, splits, window,
    DIM: tl.constexpr, SPLIT: tl.constexpr, IS_EARLY: tl.constexpr,
):  # fmt: skip
    if IS_EARLY:
        gdc_launch_dependents()
        gdc_wait()
    row, head, column = tl.program_id(0), tl.program_id(1), tl.arange(0, DIM)
    position, place = tl.load(positions + row).to(tl.int32), row.to(tl.int64) * heads + head
    first = max(position - window + 1, 0) // SPLIT if window else 0
    highest, weight, total = float("-inf"), 0.0, tl.zeros((DIM,), tl.float32)
    for split in range(first, position // SPLIT + 1):
        source = place * splits + split
        peak = tl.load(weights + 2 * source)
        top = tl.maximum(highest, peak)
        kept, added = tl.exp2(highest - top), tl.exp2(peak - top)
        weight = weight * kept + tl.load(weights + 2 * source + 1) * added
        part = tl.load(partial + source * head_dim + column, mask=column < head_dim, other=0.0)
        total = total * kept + part * added
        highest = top
    tl.store(out + place * head_dim + column, (total / weight).to(tl.bfloat16), mask=column < head_dim)
