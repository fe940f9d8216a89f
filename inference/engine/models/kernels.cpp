// One step of the Llama family on the CPU: all rows of a step through all layers in one call.
//
// Every number is summed in an order that depends on nothing but the matrix: over inputs one after the other, over
// keys one after the other. A row's result is therefore the same to the last bit whatever the other rows are, however
// many threads run, and whether a prompt comes whole or in pieces. What is multiplied and added in one rounding is said
// by `fused`, and nothing else is: a compiler that chooses (-ffp-contract) chooses otherwise for other numbers of rows.
//
// Matrices are packed by native_decoder.py: [outputs / W][inputs][W], int8 ones [outputs / W][inputs / 4][W][4].
// Those of GGUF's blocks of 32 inputs lie [outputs / W][inputs / 32][record]: the numbers without sign, [4 or 8][W][4]
// bytes, then a half-precision scale and, in Q4_1, a minimum of each output. The rows that they are multiplied with have
// 16 bits, as two bytes with sign, so that only sums of 32 products are rounded. Such a matrix may have a low-rank
// addition, whose rows pass both factors as floats.
// Keys lie [slot][head][context / W][dim][W], values [slot][head][context][dim rounded up to W].

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

#if defined(__AVX512F__)
constexpr int W = 16;       // floats in a vector register
constexpr int TILE = 12;    // rows that are multiplied at once: with two vectors of outputs, 24 of 32 registers
#else
constexpr int W = 8;
constexpr int TILE = 6;
#endif
constexpr int QUERIES = 8;  // that attend at once

typedef float Vec __attribute__((vector_size(W * 4), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(W * 4), aligned(4), may_alias));
typedef uint32_t Words __attribute__((vector_size(W * 4), aligned(4), may_alias));
typedef uint16_t Halves __attribute__((vector_size(W * 2), aligned(2), may_alias));

inline Vec load(const float *from) { return *reinterpret_cast<const Vec *>(from); }
inline void store(float *to, Vec what) { *reinterpret_cast<Vec *>(to) = what; }
inline Vec widen(const uint16_t *from) {
    const Halves halves = *reinterpret_cast<const Halves *>(from);
    return reinterpret_cast<Vec>(__builtin_convertvector(halves, Words) << 16);
}
// a * b + c
inline Vec fused(Vec a, Vec b, Vec c) {
#if defined(__AVX512F__)
    return (Vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (Vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__FP_FAST_FMAF)
    for (int lane = 0; lane < W; lane++) c[lane] = __builtin_fmaf(a[lane], b[lane], c[lane]);
    return c;
#else
    return a * b + c;
#endif
}
inline Vec fused(Vec a, float b, Vec c) { return fused(a, b - Vec{}, c); }  // b + 0 would be an addition
inline long up(long count, long unit) { return (count + unit - 1) / unit * unit; }
inline float added(Vec what) {
    float sum = 0;
    for (int lane = 0; lane < W; lane++) sum += what[lane];
    return sum;
}

// e to the x, within two units in the last place; 0 below -87.
inline Vec exponential(Vec x) {
    const Vec bounded = x < -87.0f ? Vec{} - 87.0f : x;
    const Vec scaled = bounded * 1.44269504088896341f;
    const Ints whole = __builtin_convertvector(scaled + (scaled < 0.0f ? Vec{} - 0.5f : Vec{} + 0.5f), Ints);
    const Vec n = __builtin_convertvector(whole, Vec);
    const Vec r = fused(n, 2.12194440e-4f, fused(n, -0.693359375f, bounded));
    Vec p = Vec{} + 1.9875691500e-4f;
    for (const float next : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
        p = fused(p, r, Vec{} + next);
    p = fused(p * r, r, r) + 1.0f;
    const Vec power = reinterpret_cast<Vec>((whole + 127) << 23);
    return x < -87.0f ? Vec{} : p * power;
}

// Threads that help with a step. They sleep between steps. Within one they look for work without sleeping, and the
// caller waits for those only who took some: a helper that the system has put aside holds nobody up.
class Pool {
  public:
    explicit Pool(int threads) {
        for (int id = 1; id < threads; id++) helpers_.emplace_back([this, id] { help(id); });
    }

    ~Pool() {
        ended_ = true;
        begin();
        for (auto &helper : helpers_) helper.join();
    }

    void begin() {
        if (helpers_.empty()) return;
        awake_.store(1, std::memory_order_release);
        awake_.notify_all();
    }

    void end() { awake_.store(0, std::memory_order_release); }

    int threads() const { return int(helpers_.size()) + 1; }

    // work(index, thread) for every index below `count`.
    template <class Work> void each(int count, const Work &work) {
        if (count <= 1 || helpers_.empty()) {
            for (int index = 0; index < count; index++) work(index, 0);
            return;
        }
        call_ = [](const void *what, int index, int thread) { (*static_cast<const Work *>(what))(index, thread); };
        what_ = &work;
        count_ = count;
        next_.store(0, std::memory_order_relaxed);
        state_.store(OPEN, std::memory_order_release);
        take(0);
        for (uint32_t open = OPEN; !state_.compare_exchange_weak(open, 0, std::memory_order_acquire); open = OPEN) rest();
    }

  private:
    static constexpr uint32_t OPEN = 1u << 16;  // beside the number of helpers at work

    static void rest() {
#if defined(__x86_64__)
        _mm_pause();
#else
        std::this_thread::yield();
#endif
    }

    void take(int thread) {
        for (int index; (index = next_.fetch_add(1, std::memory_order_relaxed)) < count_;) call_(what_, index, thread);
    }

    void help(int id) {
        for (int idle = 0;; idle++) {
            uint32_t state = state_.load(std::memory_order_relaxed);
            if ((state & OPEN) && state_.compare_exchange_strong(state, state + 1, std::memory_order_acquire)) {
                take(id);
                state_.fetch_sub(1, std::memory_order_release);
                idle = 0;
            }
            if (!awake_.load(std::memory_order_acquire)) awake_.wait(0, std::memory_order_acquire);
            if (ended_) return;
            if (idle > 2000) std::this_thread::yield();
            rest();
        }
    }

    std::vector<std::thread> helpers_;
    std::atomic<int> awake_{0}, next_{0};
    std::atomic<uint32_t> state_{0};
    std::atomic<bool> ended_{false};
    void (*call_)(const void *, int, int) = nullptr;
    const void *what_ = nullptr;
    int count_ = 0;
};

}  // namespace

extern "C" {

enum Kind : int32_t { FLOAT32 = 0, BFLOAT16 = 1, INT8 = 2, Q4_0 = 3, Q4_1 = 4, Q8_0 = 5 };

struct Matrix {
    int32_t kind, outputs, inputs, rank;
    const void *packed;
    const float *bias;        // [outputs rounded up] or null
    const float *scale;       // int8: [outputs rounded up]
    const int32_t *offset;    // int8: 128 times the sum of each output's weights
    const float *down_factor; // of a low-rank addition, if rank > 0: [inputs][rank rounded up]
    const float *up_factor;   // [outputs / W][rank][W]
};

struct Layer {
    Matrix qkv, output, gate, up, down;
    const float *attention_norm, *mlp_norm, *query_norm, *key_norm;
    float *keys, *values;
};

struct Model {
    int32_t vocabulary, hidden, intermediate, layers, heads, kv_heads, dim, context, threads, embedding_packed;
    float norm_eps;
    int32_t embedding_kind;
    const Layer *layer;
    const void *embedding;    // rows of tokens, or the packed head
    const float *norm, *cosine, *sine;
    Matrix head;
};

// `groups` are rows of one slot that follow each other, at most QUERIES queries of a key head together.
struct Step {
    int32_t rows, groups, wanted, unused;
    const int32_t *tokens, *slots, *positions, *group_first, *group_rows, *wanted_rows;
    float *logits;            // [wanted][vocabulary rounded up]
};

}  // extern "C"

namespace {

constexpr int BLOCK = 32;     // inputs of a GGUF block
constexpr int QUADS = BLOCK / 4;
constexpr int MOST = 127 * 256;  // of a number of 16 bits in two bytes with sign

constexpr bool blocked(Kind kind) { return kind >= Q4_0; }
constexpr long number_bytes(Kind kind) { return kind == Q8_0 ? W * BLOCK : W * BLOCK / 2; }
constexpr long record_bytes(Kind kind) { return number_bytes(kind) + (kind == Q4_1 ? 2 : 1) * W * 2; }
constexpr int subtracted(Kind kind) { return kind == Q8_0 ? 128 : kind == Q4_0 ? 8 : 0; }

inline float half_to_float(uint16_t half) {
    const uint32_t sign = uint32_t(half & 0x8000) << 16, exponent = (half >> 10) & 31, fraction = half & 1023;
    uint32_t word = sign | (exponent + 112) << 23 | fraction << 13;
    if (exponent == 31) word = sign | 0x7f800000 | fraction << 13;
    float value;
    std::memcpy(&value, &word, 4);
    if (exponent == 0) value = (sign ? -1.0f : 1.0f) * float(fraction) * 5.9604644775390625e-8f;
    return value;
}

inline Vec widen_halves(const void *from) {
#if defined(__AVX512F__)
    return (Vec)_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i *>(from)));
#elif defined(__F16C__)
    return (Vec)_mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i *>(from)));
#else
    Vec some;
    uint16_t halves[W];
    std::memcpy(halves, from, sizeof halves);
    for (int lane = 0; lane < W; lane++) some[lane] = half_to_float(halves[lane]);
    return some;
#endif
}

// Rows as a matrix takes them: cut into tiles, each [inputs][rows of the tile], int8 [inputs / 4][rows][4]. For blocks
// [inputs / 32][rows][high and low bytes][32], with the sum and the scale of each block.
struct Input {
    int rows = 0, inputs = 0, tiles = 0;
    std::vector<float> floats, reduced;  // reduced: [rows][rank rounded up], products with a low-rank addition's factor
    std::vector<uint8_t> bytes;
    std::vector<int32_t> sums;
    std::vector<float> scale;

    void shape(int rows_, int inputs_, Kind kind) {
        rows = rows_, inputs = inputs_, tiles = (rows + TILE - 1) / TILE;
        const size_t size = size_t(rows) * up(inputs, 4);
        if (kind == INT8 || blocked(kind)) {
            const size_t factor = blocked(kind) ? 2 : 1;
            if (bytes.size() < size * factor) bytes.resize(size * factor);
            const size_t scales = blocked(kind) ? size / BLOCK : rows;
            if (blocked(kind) && sums.size() < scales) sums.resize(scales);
            if (scale.size() < scales) scale.resize(scales);
        } else if (floats.size() < size) {
            floats.resize(size);
        }
    }
    int first(int tile) const { return int(int64_t(rows) * tile / tiles); }

    // Four sums at once, because each addition waits for the one before.
    void reduce(const Matrix &m, int row, const float *from) {
        const long rank = up(m.rank, W);
        for (long at = 0; at < rank; at += W) {
            Vec sum[4] = {};
            for (long k = 0; k < m.inputs; k += 4)
                for (int i = 0; i < 4; i++) sum[i] = fused(load(m.down_factor + (k + i) * rank + at), from[k + i], sum[i]);
            store(&reduced[row * rank + at], (sum[0] + sum[1]) + (sum[2] + sum[3]));
        }
    }

    void take(int tile, int row, const float *from, Kind kind) {
        const int begin = first(tile), width = first(tile + 1) - begin;
        if (blocked(kind)) return take_blocks(begin, width, row, from);
        if (kind != INT8) {
            float *to = floats.data() + size_t(begin) * inputs + (row - begin);
            for (int k = 0; k < inputs; k++) to[size_t(k) * width] = from[k];
            return;
        }
        float most = 1e-30f, nothing = 0;  // what is no number stays none: int8 has none of its own
        for (int k = 0; k < inputs; k++) most = std::max(most, std::fabs(from[k])), nothing += from[k] * 0;
        scale[row] = most / 127 + nothing;
        const float inverse = 127 / most;
        const long padded = up(inputs, 4);
        uint8_t *to = bytes.data() + size_t(begin) * padded + size_t(row - begin) * 4;
        for (long k = 0; k < padded; k++) {
            const float value = k < inputs ? from[k] * inverse : 0;
            to[(k / 4) * width * 4 + k % 4] = uint8_t(int(std::lrintf(value)) + 128);
        }
    }

    // Each block has a scale of its own, so that one large number makes no other block less exact.
    void take_blocks(int begin, int width, int row, const float *from) {
        const int blocks = inputs / BLOCK;
        for (int block = 0; block < blocks; block++, from += BLOCK) {
            const size_t at = size_t(begin) * blocks + size_t(block) * width + (row - begin);
            uint8_t *high = bytes.data() + at * 2 * BLOCK, *low = high + BLOCK;
            float most = 1e-30f, nothing = 0;
            for (int i = 0; i < BLOCK; i++) most = std::max(most, std::fabs(from[i])), nothing += from[i] * 0;
            const float inverse = nothing == 0 ? MOST / most : 0;
            int32_t sum = 0;
            for (int i = 0; i < BLOCK; i++) {
                const int whole = nothing == 0 ? int(std::lrintf(from[i] * inverse)) : 0;
                const int above = (whole + 128) >> 8;
                high[i] = uint8_t(above);
                low[i] = uint8_t(whole - above * 256);
                sum += whole;
            }
            sums[at] = sum;
            scale[at] = most / MOST + nothing;
        }
    }
};

// sum + the products of four numbers without sign of each lane and four with sign.
inline Ints dot_unsigned(Ints sum, Ints weights, int32_t four) {
#if defined(__AVX512VNNI__) && defined(__AVX512F__)
    return (Ints)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)weights, _mm512_set1_epi32(four));
#elif defined(__AVXVNNI__) && !defined(__AVX512F__)
    return (Ints)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)weights, _mm256_set1_epi32(four));
#elif defined(__AVX2__) && !defined(__AVX512F__)
    // Halves of the numbers first: sums of two products are limited to 16 bits.
    const __m256i row = _mm256_set1_epi32(four), ones = _mm256_set1_epi16(1), lowest = _mm256_set1_epi8(1);
    const __m256i halves = _mm256_and_si256(_mm256_srli_epi16((__m256i)weights, 1), _mm256_set1_epi8(127));
    const __m256i twice = _mm256_madd_epi16(_mm256_maddubs_epi16(halves, row), _mm256_set1_epi16(2));
    const __m256i rest = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_and_si256((__m256i)weights, lowest), row), ones);
    return (Ints)_mm256_add_epi32((__m256i)sum, _mm256_add_epi32(twice, rest));
#else
    int8_t row[4];
    uint8_t numbers[W * 4];
    std::memcpy(row, &four, 4);
    std::memcpy(numbers, &weights, sizeof numbers);
    for (int lane = 0; lane < W; lane++)
        for (int i = 0; i < 4; i++) sum[lane] += int(numbers[lane * 4 + i]) * row[i];
    return sum;
#endif
}

inline Ints dot(Ints sum, int32_t four, const int8_t *weights) {
#if defined(__AVX512VNNI__) && defined(__AVX512F__)
    return (Ints)_mm512_dpbusd_epi32((__m512i)sum, _mm512_set1_epi32(four), _mm512_loadu_si512(weights));
#elif defined(__AVXVNNI__) && !defined(__AVX512F__)
    return (Ints)_mm256_dpbusd_avx_epi32((__m256i)sum, _mm256_set1_epi32(four), _mm256_loadu_si256((const __m256i *)weights));
#else
    uint8_t row[4];
    std::memcpy(row, &four, 4);
    for (int lane = 0; lane < W; lane++)
        for (int i = 0; i < 4; i++) sum[lane] += int(row[i]) * weights[lane * 4 + i];
    return sum;
#endif
}

// sum = the product of a tile of R rows and the vector of outputs `block`.
template <Kind K, int R> __attribute__((noinline)) void multiply_blocks(const Matrix &m, const Input &in, int first, int block, Vec (&sum)[R]) {
    const long blocks = m.inputs / BLOCK;
    const size_t place = size_t(first) * blocks;
    const uint8_t *x = in.bytes.data() + place * 2 * BLOCK;
    const int32_t *sums = in.sums.data() + place;
    const float *scales = in.scale.data() + place;
    const uint8_t *record = static_cast<const uint8_t *>(m.packed) + size_t(block) * blocks * record_bytes(K);
    for (int r = 0; r < R; r++) sum[r] = Vec{};
    for (long b = 0; b < blocks; b++, record += record_bytes(K)) {
        Ints weights[QUADS];
        if constexpr (K == Q8_0) {
            for (int q = 0; q < QUADS; q++) weights[q] = reinterpret_cast<const Ints *>(record)[q];
        } else {
            for (int q = 0; q < QUADS / 2; q++) {
                const Ints both = reinterpret_cast<const Ints *>(record)[q];
                weights[q] = both & 0x0f0f0f0f;
                weights[q + QUADS / 2] = (both >> 4) & 0x0f0f0f0f;
            }
        }
        const Vec scale = widen_halves(record + number_bytes(K));
        for (int r = 0; r < R; r++) {
            const long at = b * R + r;
            const uint8_t *row = x + at * 2 * BLOCK;
            Ints high{}, low{};
            for (int q = 0; q < QUADS; q++) {
                int32_t four[2];
                std::memcpy(&four[0], row + q * 4, 4);
                std::memcpy(&four[1], row + BLOCK + q * 4, 4);
                high = dot_unsigned(high, weights[q], four[0]);
                low = dot_unsigned(low, weights[q], four[1]);
            }
            const Ints whole = (high << 8) + low - subtracted(K) * sums[at];
            sum[r] = fused(__builtin_convertvector(whole, Vec) * scales[at], scale, sum[r]);
            if constexpr (K == Q4_1)
                sum[r] = fused(widen_halves(record + number_bytes(K) + W * 2), float(sums[at]) * scales[at], sum[r]);
        }
    }
}

// y = the product of a tile of R rows and V vectors of outputs from `block` on.
template <Kind K, int R, int V>
inline void multiply(const Matrix &m, const Input &in, int first, int block, Vec (&y)[R][V]) {
    if constexpr (blocked(K)) {
        for (int v = 0; v < V; v++) {
            Vec sum[R];
            multiply_blocks<K, R>(m, in, first, block + v, sum);
            for (int r = 0; r < R; r++) y[r][v] = sum[r];
        }
    } else if constexpr (K == INT8) {
        const long quads = up(m.inputs, 4) / 4;
        const int8_t *w = static_cast<const int8_t *>(m.packed) + size_t(block) * quads * W * 4;
        const uint8_t *x = in.bytes.data() + size_t(first) * quads * 4;
        Ints sum[R][V] = {};
        for (long k = 0; k < quads; k++)
            for (int r = 0; r < R; r++) {
                int32_t four;
                std::memcpy(&four, x + (k * R + r) * 4, 4);
                for (int v = 0; v < V; v++) sum[r][v] = dot(sum[r][v], four, w + (v * quads + k) * W * 4);
            }
        for (int v = 0; v < V; v++) {
            const int at = (block + v) * W;
            const Ints offset = *reinterpret_cast<const Ints *>(m.offset + at);
            for (int r = 0; r < R; r++)
                y[r][v] = __builtin_convertvector(sum[r][v] - offset, Vec) * load(m.scale + at) * in.scale[first + r];
        }
    } else {
        using Weight = std::conditional_t<K == FLOAT32, float, uint16_t>;
        const long inputs = m.inputs;
        const Weight *w = static_cast<const Weight *>(m.packed) + size_t(block) * inputs * W;
        const float *x = in.floats.data() + size_t(first) * inputs;
        Vec sum[R][V] = {};
        for (long k = 0; k < inputs; k++) {
            Vec weights[V];
            for (int v = 0; v < V; v++) {
                if constexpr (K == FLOAT32) weights[v] = load(w + (v * inputs + k) * W);
                else weights[v] = widen(w + (v * inputs + k) * W);
            }
            for (int r = 0; r < R; r++)
                for (int v = 0; v < V; v++) sum[r][v] = fused(weights[v], x[k * R + r], sum[r][v]);
        }
        for (int r = 0; r < R; r++)
            for (int v = 0; v < V; v++) y[r][v] = sum[r][v];
    }
    if (m.bias)
        for (int r = 0; r < R; r++)
            for (int v = 0; v < V; v++) y[r][v] += load(m.bias + (block + v) * W);
    for (int v = 0; v < V; v++)
        for (long k = 0; k < m.rank; k++) {
            const Vec factor = load(m.up_factor + (size_t(block + v) * m.rank + k) * W);
            for (int r = 0; r < R; r++) y[r][v] = fused(factor, in.reduced[(first + r) * up(m.rank, W) + k], y[r][v]);
        }
}

constexpr int vectors(int rows) { return W == 8 ? 2 : rows <= 2 ? 8 : rows <= 6 ? 4 : 2; }

template <int R, class Use> void with_rows(int rows, const Use &use) {
    if constexpr (R > 1)
        if (rows < R) return with_rows<R - 1>(rows, use);
    use(std::integral_constant<int, R>{});
}

template <class Use> void with_kind(int kind, const Use &use) {
    if (kind == FLOAT32) use(std::integral_constant<Kind, FLOAT32>{});
    else if (kind == BFLOAT16) use(std::integral_constant<Kind, BFLOAT16>{});
    else if (kind == Q4_0) use(std::integral_constant<Kind, Q4_0>{});
    else if (kind == Q4_1) use(std::integral_constant<Kind, Q4_1>{});
    else if (kind == Q8_0) use(std::integral_constant<Kind, Q8_0>{});
    else use(std::integral_constant<Kind, INT8>{});
}

// finish(row, place, y) or, with a second matrix, finish(row, place, y, other's y), for every row and W outputs.
template <class Finish> void product(Pool &pool, const Matrix &m, const Matrix *other, const Input &in, const Finish &finish) {
    const int blocks = int(up(m.outputs, W) / W);
    // Few weights at a time, so that they stay near while all tiles go over them.
    const int near = in.tiles == 1 ? 8 : size_t(m.inputs) * W * 16 > (1 << 19) ? 2 : 4;
    const int groups = (blocks + near - 1) / near;
    const int parts = pool.threads() == 1 ? 1 : std::min(groups, 8 * pool.threads());
    pool.each(parts, [&](int part, int) {
        const int begin = int(int64_t(groups) * part / parts) * near;
        const int end = std::min(blocks, int(int64_t(groups) * (part + 1) / parts) * near);
        with_kind(m.kind, [&](auto kind) {
            for (int group = begin; group < end; group += near)
                for (int tile = 0; tile < in.tiles; tile++) {
                    const int first = in.first(tile);
                    with_rows<TILE>(in.first(tile + 1) - first, [&](auto rows) {
                        constexpr int R = rows(), V = blocked(kind()) ? 1 : vectors(R);
                        auto some = [&]<int N>(int block, std::integral_constant<int, N>) {
                            Vec y[R][N];
                            multiply<kind(), R, N>(m, in, first, block, y);
                            if constexpr (std::is_invocable_v<Finish, int, int, Vec, Vec>) {
                                Vec z[R][N];
                                multiply<kind(), R, N>(*other, in, first, block, z);
                                for (int r = 0; r < R; r++)
                                    for (int v = 0; v < N; v++) finish(first + r, (block + v) * W, y[r][v], z[r][v]);
                            } else {
                                for (int r = 0; r < R; r++)
                                    for (int v = 0; v < N; v++) finish(first + r, (block + v) * W, y[r][v]);
                            }
                        };
                        int block = group;
                        const int last = std::min(group + near, end);
                        for (; block + V <= last; block += V) some(block, std::integral_constant<int, V>{});
                        for (; block < last; block++) some(block, std::integral_constant<int, 1>{});
                    });
                }
        });
    });
}

}  // namespace

// A model ready to run: its description and everything that a step writes to.
struct Runner {
    const Model model;
    Pool pool;
    Input input;
    std::vector<float> stream, states, attended, active;
    std::vector<std::vector<float>> row, scores;

    explicit Runner(const Model &from) : model(from), pool(from.threads), row(from.threads), scores(from.threads) {
        for (auto &one : row) one.resize(up(std::max({model.hidden, model.intermediate, model.heads * model.dim}), W));
        for (auto &one : scores) one.resize(size_t(QUERIES) * up(model.context, W));
    }

    long hidden() const { return up(model.hidden, W); }
    long wide() const { return up((model.heads + 2 * model.kv_heads) * model.dim, W); }
    long joined() const { return up(model.heads * model.dim, W); }
    long inner() const { return up(model.intermediate, W); }
    long dim() const { return up(model.dim, W); }
    long context() const { return up(model.context, W); }

    void run(const Step &step) {
        pool.begin();
        grow(stream, step.rows * hidden());
        grow(states, step.rows * wide());
        grow(attended, step.rows * joined());
        grow(active, step.rows * inner());
        pool.each(step.rows, [&](int at, int) { embed(step.tokens[at], &stream[at * hidden()]); });
        for (int index = 0; index < model.layers; index++) layer(step, model.layer[index]);
        give(step);
        pool.end();
    }

  private:
    static void grow(std::vector<float> &buffer, size_t size) {
        if (buffer.size() < size) buffer.resize(size);
    }

    void embed_blocks(int token, float *to) const {
        const Kind kind = Kind(model.embedding_kind);
        const long blocks = model.hidden / BLOCK, lane = token % W;
        const uint8_t *record = static_cast<const uint8_t *>(model.embedding) + size_t(token / W) * blocks * record_bytes(kind);
        for (long k = 0; k < model.hidden; k++) {
            const uint8_t *block = record + k / BLOCK * record_bytes(kind);
            const long quad = k % BLOCK / 4, stored = kind == Q8_0 ? quad : quad % (QUADS / 2);
            int number = block[(stored * W + lane) * 4 + k % 4];
            if (kind != Q8_0) number = quad < QUADS / 2 ? number & 15 : number >> 4;
            uint16_t scale, least = 0;
            std::memcpy(&scale, block + number_bytes(kind) + lane * 2, 2);
            if (kind == Q4_1) std::memcpy(&least, block + number_bytes(kind) + (W + lane) * 2, 2);
            to[k] = half_to_float(scale) * float(number - subtracted(kind)) + half_to_float(least);
        }
    }

    void embed(int token, float *to) const {
        if (blocked(Kind(model.embedding_kind))) return embed_blocks(token, to);
        const long stride = model.embedding_packed ? W : 1;
        const long at = model.embedding_packed ? long(token) / W * W * model.hidden + token % W : long(token) * model.hidden;
        for (long k = 0; k < model.hidden; k++) {
            const long place = at + k * stride;
            if (model.embedding_kind == FLOAT32) {
                to[k] = static_cast<const float *>(model.embedding)[place];
            } else {
                const uint32_t word = uint32_t(static_cast<const uint16_t *>(model.embedding)[place]) << 16;
                std::memcpy(to + k, &word, 4);
            }
        }
    }

    // Rows for a matrix, through a norm where there is one.
    void prepare(const Matrix &m, const float *from, long stride, int rows, const float *norm, const int32_t *which = nullptr) {
        const Kind kind = Kind(m.kind);
        input.shape(rows, m.inputs, kind);
        if (m.rank) grow(input.reduced, rows * up(m.rank, W));
        pool.each(input.tiles, [&](int tile, int thread) {
            for (int at = input.first(tile); at < input.first(tile + 1); at++) {
                const float *values = from + stride * (which ? which[at] : at);
                if (norm) {
                    normalise(values, norm, row[thread].data());
                    values = row[thread].data();
                }
                input.take(tile, at, values, kind);
                if (m.rank) input.reduce(m, at, values);
            }
        });
    }

    void normalise(const float *from, const float *weight, float *to) const {
        Vec squares{};
        long k = 0;
        for (; k + W <= model.hidden; k += W) squares = fused(load(from + k), load(from + k), squares);
        float sum = added(squares);
        for (; k < model.hidden; k++) sum += from[k] * from[k];
        const float scale = 1 / std::sqrt(sum / model.hidden + model.norm_eps);
        for (k = 0; k < model.hidden; k++) to[k] = from[k] * scale * weight[k];
    }

    void layer(const Step &step, const Layer &of) {
        prepare(of.qkv, stream.data(), hidden(), step.rows, of.attention_norm);
        product(pool, of.qkv, nullptr, input, [&](int at, int place, Vec y) { store(&states[at * wide() + place], y); });
        pool.each(step.rows, [&](int at, int) { place(of, step.slots[at], step.positions[at], &states[at * wide()]); });
        pool.each(step.groups * model.kv_heads, [&](int job, int thread) {
            attend(step, of, job / model.kv_heads, job % model.kv_heads, scores[thread].data());
        });
        auto add = [&](int at, int place, Vec y) {
            float *to = &stream[at * hidden() + place];
            store(to, load(to) + y);
        };
        prepare(of.output, attended.data(), joined(), step.rows, nullptr);
        product(pool, of.output, nullptr, input, add);
        prepare(of.gate, stream.data(), hidden(), step.rows, of.mlp_norm);
        product(pool, of.gate, &of.up, input, [&](int at, int place, Vec gate, Vec lift) {
            const Vec negative = gate < -88.0f ? Vec{} + 88.0f : -gate;
            store(&active[at * inner() + place], gate / (exponential(negative) + 1.0f) * lift);
        });
        prepare(of.down, active.data(), inner(), step.rows, nullptr);
        product(pool, of.down, nullptr, input, add);
    }

    // Turns queries and keys by their position, and puts keys and values where they belong.
    void place(const Layer &of, int slot, int position, float *row) const {
        const int dim = model.dim, half = dim / 2;
        const float *cosine = model.cosine + long(position) * half, *sine = model.sine + long(position) * half;
        for (int head = 0; head < model.heads + model.kv_heads; head++) {
            float *low = row + head * dim, *high = low + half;
            if (of.query_norm) normalise_head(low, head < model.heads ? of.query_norm : of.key_norm);
            for (int i = 0; i < half; i++) {
                const float a = low[i], b = high[i];
                low[i] = a * cosine[i] - b * sine[i];
                high[i] = b * cosine[i] + a * sine[i];
            }
        }
        for (int head = 0; head < model.kv_heads; head++) {
            const float *key = row + (model.heads + head) * dim, *value = key + model.kv_heads * dim;
            const long at = long(slot) * model.kv_heads + head;
            float *keys = of.keys + (at * context() + position / W * W) * dim + position % W;
            for (int i = 0; i < dim; i++) keys[i * W] = key[i];
            std::copy(value, value + dim, of.values + (at * context() + position) * this->dim());
        }
    }

    void normalise_head(float *head, const float *weight) const {
        float sum = 0;
        for (int i = 0; i < model.dim; i++) sum += head[i] * head[i];
        const float scale = 1 / std::sqrt(sum / model.dim + model.norm_eps);
        for (int i = 0; i < model.dim; i++) head[i] *= scale * weight[i];
    }

    void attend(const Step &step, const Layer &of, int group, int kv_head, float *scores) {
        const int first = step.group_first[group], share = model.heads / model.kv_heads;
        const int queries = step.group_rows[group] * share;
        const long at = long(step.slots[first]) * model.kv_heads + kv_head;
        const float *keys = of.keys + at * context() * model.dim, *values = of.values + at * context() * dim();
        for (int begin = 0; begin < queries; begin += QUERIES) {
            const float *query[QUERIES];
            float *to[QUERIES];
            int ends[QUERIES];
            const int count = std::min(QUERIES, queries - begin);
            for (int q = 0; q < count; q++) {
                const int row = first + (begin + q) / share, head = kv_head * share + (begin + q) % share;
                query[q] = &states[row * wide() + head * model.dim];
                to[q] = &attended[row * joined() + head * model.dim];
                ends[q] = step.positions[row] + 1;
            }
            with_rows<QUERIES>(count, [&](auto some) { attend<some()>(query, ends, keys, values, scores, to); });
        }
    }

    // `ends` ascend, so the last query sees the most keys.
    template <int Q>
    void attend(const float *const *query, const int *ends, const float *keys, const float *values, float *scores, float *const *to) const {
        const long stride = context(), end = up(ends[Q - 1], W);
        constexpr int MANY = W == 8 ? 1 : Q <= 2 ? 8 : Q <= 4 ? 4 : 2;
        long key = 0;
        for (; key + MANY * W <= end; key += MANY * W) score<Q, MANY>(query, keys + key * model.dim, scores + key, stride);
        for (; key < end; key += W) score<Q, 1>(query, keys + key * model.dim, scores + key, stride);
        for (int q = 0; q < Q; q++) soften(scores + q * stride, ends[q], end);
        constexpr int WIDE = W == 8 ? 2 : Q <= 4 ? 4 : 2;
        long place = 0;
        for (; place + WIDE * W <= dim(); place += WIDE * W) gather<Q, WIDE>(scores, stride, ends[Q - 1], values, place, to);
        for (; place < dim(); place += W) gather<Q, 1>(scores, stride, ends[Q - 1], values, place, to);
    }

    template <int Q, int N> void score(const float *const *query, const float *keys, float *scores, long stride) const {
        const float scale = 1 / std::sqrt(float(model.dim));
        const long block = long(model.dim) * W;
        Vec sum[Q][N] = {};
        for (int i = 0; i < model.dim; i++)
            for (int n = 0; n < N; n++) {
                const Vec some = load(keys + n * block + i * W);
                for (int q = 0; q < Q; q++) sum[q][n] = fused(some, query[q][i], sum[q][n]);
            }
        for (int q = 0; q < Q; q++)
            for (int n = 0; n < N; n++) store(scores + q * stride + n * W, sum[q][n] * scale);
    }

    // Scores to probabilities; those from `limit` to `end` are 0.
    static void soften(float *scores, long limit, long end) {
        for (long key = limit; key < end; key++) scores[key] = -INFINITY;
        Vec best = load(scores);
        for (long key = W; key < end; key += W) {
            const Vec some = load(scores + key);
            best = some > best ? some : best;
        }
        float most = best[0];
        for (int lane = 1; lane < W; lane++) most = std::max(most, best[lane]);
        Vec sum{};
        for (long key = 0; key < end; key += W) {
            const Vec some = exponential(load(scores + key) - most);
            store(scores + key, some);
            sum += some;
        }
        const float inverse = 1 / added(sum);
        for (long key = 0; key < end; key += W) store(scores + key, load(scores + key) * inverse);
    }

    template <int Q, int N>
    void gather(const float *scores, long stride, long end, const float *values, long place, float *const *to) const {
        Vec sum[Q][N] = {};
        for (long key = 0; key < end; key++)
            for (int n = 0; n < N; n++) {
                const Vec some = load(values + key * dim() + place + n * W);
                for (int q = 0; q < Q; q++) sum[q][n] = fused(some, scores[q * stride + key], sum[q][n]);
            }
        for (int q = 0; q < Q; q++)
            for (int n = 0; n < N; n++) {
                const long at = place + n * W;
                std::memcpy(to[q] + at, &sum[q][n], std::min<long>(W, model.dim - at) * 4);
            }
    }

    void give(const Step &step) {
        if (!step.wanted) return;
        const long stride = up(model.vocabulary, W);
        prepare(model.head, stream.data(), hidden(), step.wanted, model.norm, step.wanted_rows);
        product(pool, model.head, nullptr, input, [&](int at, int place, Vec y) { store(step.logits + at * stride + place, y); });
    }
};

extern "C" {

int32_t vector_width() { return W; }
int32_t queries_at_once() { return QUERIES; }
Runner *make_runner(const Model *model) { return new Runner(*model); }
void end_runner(Runner *runner) { delete runner; }
void run_step(Runner *runner, const Step *step) { runner->run(*step); }

}
