// One step of Llama and families like it on the CPU: all rows of a step through all layers in one call.
//
// Every number is summed in an order that depends on nothing but the matrix: over inputs one after the other, over
// keys one after the other. A row's result is therefore the same to the last bit whatever the other rows are, however
// many threads run, and whether a prompt comes whole or in pieces. What is multiplied and added in one rounding is said
// by `fused`, and nothing else is: a compiler that chooses (-ffp-contract) chooses otherwise for other numbers of rows.
//
// Matrices are packed by native_decoder.py: [outputs / W][inputs][W], int8 ones [outputs / W][inputs / 4][W][4], pairs of
// bfloat16 [outputs / W][inputs / 2][W][2]. Rows are rounded to bfloat16 for the pairs, and for no other matrix.
// Those of GGUF's blocks of 32 inputs lie [outputs / W][inputs / 32][record]: the numbers without sign (in all kinds but
// Q8_0 their four lower bits, [4][W][4] bytes of two numbers, then their upper bits), and what scales them. In the K kinds
// eight records follow the half-precision scales of 256 inputs, and their own scales are bytes. The rows that they are
// multiplied with have 16 bits, as two bytes with sign, so that only sums of 32 products (16 in Q6_K) are rounded. Such a
// matrix may have a low-rank addition, whose rows pass both factors as floats.
// Keys lie [slot][head][context / W][dim][W], values [slot][head][context][dim rounded up to W], in float32 or float16.

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

// The hyperbolic tangent, within 1e-7.
inline Vec tangent(Vec x) {
    const Vec power = exponential((x < 0.0f ? x : -x) * 2.0f);
    const Vec size = (1.0f - power) / (1.0f + power);
    return x < 0.0f ? -size : size;
}
inline Vec capped(Vec x, float cap) { return tangent(x / cap) * cap; }

inline Vec silu(Vec x) { return x / (exponential(x < -88.0f ? Vec{} + 88.0f : -x) + 1.0f); }
// By its approximation with the hyperbolic tangent.
inline Vec gelu(Vec x) { return x * 0.5f * (tangent(0.79788456080286536f * (x + 0.044715f * x * x * x)) + 1.0f); }

// Threads that help with a step. They sleep between steps. Within one they look for work without sleeping, and the
// caller waits for those only who took some: a helper that the system has put aside holds nobody up.
class Pool {
  public:
    explicit Pool(int threads) {
        for (int id = 1; id < threads; id++) helpers_.emplace_back([this, id] { help(id); });
    }

    ~Pool() {
        ended_ = true;
        begin(int(helpers_.size()) + 1);
        for (auto &helper : helpers_) helper.join();
    }

    // Wakes helpers: so many threads work, the caller among them.
    void begin(int threads) {
        threads_ = std::clamp(threads, 1, int(helpers_.size()) + 1);
        if (threads_ == 1) return;
        awake_.store(threads_, std::memory_order_release);
        awake_.notify_all();
    }

    void end() { awake_.store(0, std::memory_order_release); }

    int threads() const { return threads_; }

    // work(index, thread) for every index below `count`.
    template <class Work> void each(int count, const Work &work) {
        if (count <= 1 || threads_ == 1) {
            for (int index = 0; index < count; index++) work(index, 0);
            return;
        }
        call_ = [](const void *what, int index, int thread) { (*static_cast<const Work *>(what))(index, thread); };
        what_ = &work;
        count_.store(count, std::memory_order_relaxed);
        next_.store(0, std::memory_order_relaxed);
        state_.store(OPEN, std::memory_order_release);
        take(0);
        state_.fetch_and(~OPEN, std::memory_order_relaxed);  // nobody comes any more
        while (state_.load(std::memory_order_acquire)) rest();
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

    bool has_work() const { return next_.load(std::memory_order_relaxed) < count_.load(std::memory_order_relaxed); }

    void take(int thread) {
        const int count = count_.load(std::memory_order_relaxed);
        for (int index; (index = next_.fetch_add(1, std::memory_order_relaxed)) < count;) call_(what_, index, thread);
    }

    void help(int id) {
        for (int idle = 0;; idle++) {
            const int awake = awake_.load(std::memory_order_acquire);
            if (id >= awake) {
                awake_.wait(awake, std::memory_order_acquire);
                continue;
            }
            if (ended_) return;
            uint32_t state = state_.load(std::memory_order_relaxed);
            if ((state & OPEN) && has_work() &&
                state_.compare_exchange_strong(state, state + 1, std::memory_order_acquire)) {
                take(id);
                state_.fetch_sub(1, std::memory_order_release);
                idle = 0;
            }
            if (idle > 2000) std::this_thread::yield();
            rest();
        }
    }

    std::vector<std::thread> helpers_;
    int threads_ = 1;
    std::atomic<int> awake_{0}, next_{0}, count_{0};  // awake: threads of the step, 0 between steps
    std::atomic<uint32_t> state_{0};
    std::atomic<bool> ended_{false};
    void (*call_)(const void *, int, int) = nullptr;
    const void *what_ = nullptr;
};

}  // namespace

extern "C" {

enum Kind : int32_t {
    FLOAT32 = 0, BFLOAT16 = 1, INT8 = 2, PAIRS = 3,
    Q4_0 = 4, Q4_1 = 5, Q8_0 = 6, Q5_0 = 7, Q5_1 = 8, Q4_K = 9, Q5_K = 10, Q6_K = 11,
};

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
    Matrix qkv, key, value;   // key and value have no outputs if qkv has theirs
    Matrix output, gate, up, down;
    const float *attention_norm, *attention_output_norm, *mlp_norm, *mlp_output_norm;  // null: there is none
    const float *query_norm, *key_norm;
    void *keys, *values;      // floats or halves
    const float *cosine, *sine;  // [context][rotated / 2], null without rotary positions
    int32_t window, unused;   // positions that a query attends to, its own included; 0: all
};

struct Model {
    int32_t vocabulary, hidden, intermediate, layers, heads, kv_heads, dim, context, threads, embedding_packed;
    float norm_eps;
    int32_t embedding_kind;
    const Layer *layer;
    const void *embedding;    // rows of tokens, or the packed head
    const float *norm;
    Matrix head;
    int32_t half_cache;
    int32_t rotated;          // numbers of a head, its first ones
    int32_t activation;       // 0: silu, 1: gelu
    int32_t row_norms;        // query and key norms are of all heads together
    float query_scalar;       // scores are divided by its root
    float attention_cap, logit_cap;  // 0: none
    float logit_divisor, embedding_scale, residual_scale;
};

// `groups` are rows of one slot that follow each other, at most QUERIES queries of a key head together.
struct Step {
    int32_t rows, groups, wanted, threads;
    const int32_t *tokens, *slots, *positions, *group_first, *group_rows, *wanted_rows;
    float *logits;            // [wanted][vocabulary rounded up]
};

}  // extern "C"

namespace {

constexpr int BLOCK = 32;     // inputs of a GGUF block
constexpr int QUADS = BLOCK / 4;
constexpr int MOST = 127 * 256;  // of a number of 16 bits in two bytes with sign

constexpr bool blocked(Kind kind) { return kind >= Q4_0; }
constexpr bool grouped(Kind kind) { return kind >= Q4_K; }  // blocks in groups with common scales
constexpr bool has_least(Kind kind) { return kind == Q4_1 || kind == Q5_1 || kind == Q4_K || kind == Q5_K; }
constexpr int bits(Kind kind) {
    return kind == Q8_0 ? 8 : kind == Q6_K ? 6 : kind == Q5_0 || kind == Q5_1 || kind == Q5_K ? 5 : 4;
}
constexpr long number_bytes(Kind kind) { return bits(kind) * W * BLOCK / 8; }
constexpr long record_bytes(Kind kind) {
    return number_bytes(kind) + (grouped(kind) ? 2 : has_least(kind) ? 4 : 2) * W;
}
constexpr long group_bytes(Kind kind) { return grouped(kind) ? (has_least(kind) ? 4 : 2) * W : 0; }
constexpr int subtracted(Kind kind) {
    return has_least(kind) ? 0 : 1 << (bits(kind) - 1);
}
constexpr int GROUP = 8;      // blocks with common scales

// The place of a record: those of the K kinds lie in groups, after the common scales.
constexpr size_t record_place(Kind kind, size_t block) {
    return block * record_bytes(kind) + (grouped(kind) ? (block / GROUP + 1) * group_bytes(kind) : 0);
}
constexpr size_t matrix_block_bytes(Kind kind, size_t blocks) {
    return blocks * record_bytes(kind) + blocks / GROUP * group_bytes(kind);
}

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

inline uint16_t float_to_half(float value) {
#if defined(__F16C__)
    return uint16_t(_cvtss_sh(value, 0));
#else
    uint32_t word;
    std::memcpy(&word, &value, 4);
    const uint32_t sign = word >> 16 & 0x8000, magnitude = word & 0x7fffffff;
    if (magnitude > 0x7f800000) return uint16_t(sign | 0x7e00);
    if (magnitude >= 0x47800000) return uint16_t(sign | 0x7c00);
    if (magnitude < 0x38800000) {  // too small for an exponent: a multiple of 2 to the -24
        float scaled;
        std::memcpy(&scaled, &magnitude, 4);
        return uint16_t(sign | uint32_t(std::lrintf(scaled * 16777216.0f)));
    }
    const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);  // to the nearest, ties to even
    return uint16_t(sign | ((rounded - 0x38000000) >> 13));
#endif
}

inline float bfloat16_to_float(uint16_t half) {
    const uint32_t word = uint32_t(half) << 16;
    float value;
    std::memcpy(&value, &word, 4);
    return value;
}

// To the nearest, ties to even; what is no number stays none.
inline uint16_t float_to_bfloat16(float value) {
    uint32_t word;
    std::memcpy(&word, &value, 4);
    if ((word & 0x7fffffff) > 0x7f800000) return uint16_t(word >> 16 | 0x40);
    return uint16_t((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

inline Vec load(const uint16_t *halves) { return widen_halves(halves); }
inline void put(float *to, float value) { *to = value; }
inline void put(uint16_t *to, float value) { *to = float_to_half(value); }

inline Vec widen_bytes(const void *from, bool with_sign) {
    typedef int8_t Bytes __attribute__((vector_size(W), aligned(1), may_alias));
    typedef uint8_t Unsigned __attribute__((vector_size(W), aligned(1), may_alias));
    if (with_sign) return __builtin_convertvector(*static_cast<const Bytes *>(from), Vec);
    return __builtin_convertvector(*static_cast<const Unsigned *>(from), Vec);
}

// Rows as a matrix takes them: cut into tiles, each [inputs][rows of the tile], int8 [inputs / 4][rows][4], pairs of
// bfloat16 [inputs / 2][rows], the first number of a pair in the lower half of its word. For blocks
// [inputs / 32][rows][high and low bytes][32], with the sums of both halves and the scale of each block.
struct Input {
    int rows = 0, inputs = 0, tiles = 0;
    std::vector<float> floats, reduced;  // reduced: [rows][rank rounded up], products with a low-rank addition's factor
    std::vector<uint8_t> bytes;
    std::vector<uint32_t> pairs;
    std::vector<int32_t> sums;
    std::vector<float> scale;

    void shape(int rows_, int inputs_, Kind kind) {
        rows = rows_, inputs = inputs_, tiles = (rows + TILE - 1) / TILE;
        const size_t size = size_t(rows) * up(inputs, 4);
        if (kind == INT8 || blocked(kind)) {
            const size_t factor = blocked(kind) ? 2 : 1;
            if (bytes.size() < size * factor) bytes.resize(size * factor);
            const size_t scales = blocked(kind) ? size / BLOCK : rows;
            if (blocked(kind) && sums.size() < 2 * scales) sums.resize(2 * scales);
            if (scale.size() < scales) scale.resize(scales);
        } else if (kind == PAIRS) {
            if (pairs.size() < size / 2) pairs.resize(size / 2);
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
        if (kind == PAIRS) {
            uint32_t *to = pairs.data() + size_t(begin) * (up(inputs, 2) / 2) + (row - begin);
            for (int k = 0; k < inputs; k += 2) {
                const uint32_t second = k + 1 < inputs ? float_to_bfloat16(from[k + 1]) : 0;
                to[size_t(k / 2) * width] = second << 16 | float_to_bfloat16(from[k]);
            }
            return;
        }
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
            int32_t sum[2] = {};
            for (int i = 0; i < BLOCK; i++) {
                const int whole = nothing == 0 ? int(std::lrintf(from[i] * inverse)) : 0;
                const int above = (whole + 128) >> 8;
                high[i] = uint8_t(above);
                low[i] = uint8_t(whole - above * 256);
                sum[i / (BLOCK / 2)] += whole;
            }
            sums[2 * at] = sum[0], sums[2 * at + 1] = sum[1];
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

// sum + the products of two bfloat16 numbers of each lane and of a word.
inline Vec dot_pairs(Vec sum, uint32_t two, const uint16_t *weights) {
#if defined(__AVX512BF16__) && defined(__AVX512F__)
    const __m512i pair = _mm512_set1_epi32(int32_t(two));
    return (Vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)pair, (__m512bh)_mm512_loadu_si512(weights));
#else
    const Words words = *reinterpret_cast<const Words *>(weights), both = two - Words{};
    sum = fused(reinterpret_cast<Vec>(words << 16), reinterpret_cast<Vec>(both << 16), sum);
    return fused(reinterpret_cast<Vec>(words & 0xffff0000u), reinterpret_cast<Vec>(both & 0xffff0000u), sum);
#endif
}

// high, low += the products of N words of B-bit numbers without sign and the bytes of a row.
template <int B, int N> inline void dots(const Ints *weights, const uint8_t *row, Ints &high, Ints &low) {
#if defined(__AVX2__) && !defined(__AVX512VNNI__) && !defined(__AVXVNNI__) && !defined(__AVX512F__)
    if constexpr (B <= 6) {
        // So many words of products of small numbers are less than 2 to the 15.
        constexpr int MANY = std::min(N, B == 4 ? 8 : B == 5 ? 4 : 2);
        const __m256i ones = _mm256_set1_epi16(1);
        for (int first = 0; first < N; first += MANY) {
            __m256i part[2] = {};
            for (int q = first; q < first + MANY; q++)
                for (int half = 0; half < 2; half++) {
                    int32_t four;
                    std::memcpy(&four, row + half * BLOCK + q * 4, 4);
                    part[half] = _mm256_add_epi16(part[half], _mm256_maddubs_epi16((__m256i)weights[q], _mm256_set1_epi32(four)));
                }
            high += (Ints)_mm256_madd_epi16(part[0], ones);
            low += (Ints)_mm256_madd_epi16(part[1], ones);
        }
        return;
    }
#endif
    for (int q = 0; q < N; q++) {
        int32_t four[2];
        std::memcpy(&four[0], row + q * 4, 4);
        std::memcpy(&four[1], row + BLOCK + q * 4, 4);
        high = dot_unsigned(high, weights[q], four[0]);
        low = dot_unsigned(low, weights[q], four[1]);
    }
}

// The numbers of a record.
template <Kind K> inline void unpack(const uint8_t *record, Ints (&weights)[QUADS]) {
    const Ints *words = reinterpret_cast<const Ints *>(record);
    if constexpr (K == Q8_0) {
        for (int q = 0; q < QUADS; q++) weights[q] = words[q];
        return;
    }
    for (int q = 0; q < QUADS / 2; q++) {
        weights[q] = words[q] & 0x0f0f0f0f;
        weights[q + QUADS / 2] = (words[q] >> 4) & 0x0f0f0f0f;
    }
    if constexpr (bits(K) == 5) {  // bit q of each byte is the fifth one of word q
        const Ints upper = words[QUADS / 2];
        for (int q = 0; q < QUADS; q++) weights[q] |= ((upper >> q) & 0x01010101) << 4;
    } else if constexpr (bits(K) == 6) {  // two bits for each of four words
        for (int q = 0; q < QUADS; q++) weights[q] |= ((words[QUADS / 2 + q / 4] >> (q % 4 * 2)) & 0x03030303) << 4;
    }
}

// sum = the product of a tile of R rows and the vector of outputs `block`.
template <Kind K, int R> __attribute__((noinline)) void multiply_blocks(const Matrix &m, const Input &in, int first, int block, Vec (&sum)[R]) {
    const long blocks = m.inputs / BLOCK;
    const size_t place = size_t(first) * blocks;
    const uint8_t *x = in.bytes.data() + place * 2 * BLOCK;
    const int32_t *sums = in.sums.data() + 2 * place;
    const float *scales = in.scale.data() + place;
    const uint8_t *record = static_cast<const uint8_t *>(m.packed) + block * matrix_block_bytes(K, blocks);
    Vec common{}, common_least{};
    for (int r = 0; r < R; r++) sum[r] = Vec{};
    for (long b = 0; b < blocks; b++, record += record_bytes(K)) {
        if constexpr (grouped(K))
            if (b % GROUP == 0) {
                common = widen_halves(record);
                if constexpr (has_least(K)) common_least = widen_halves(record + 2 * W);
                record += group_bytes(K);
            }
        Ints weights[QUADS];
        unpack<K>(record, weights);
        const uint8_t *ends = record + number_bytes(K);
        Vec scale, least{};
        if constexpr (K == Q6_K) {
            scale = common * widen_bytes(ends, true);
            least = common * widen_bytes(ends + W, true);  // the scale of the second half
        } else if constexpr (grouped(K)) {
            scale = common * widen_bytes(ends, false);
            least = -(common_least * widen_bytes(ends + W, false));
        } else {
            scale = widen_halves(ends);
            if constexpr (has_least(K)) least = widen_halves(ends + W * 2);
        }
        for (int r = 0; r < R; r++) {
            const long at = b * R + r;
            const uint8_t *row = x + at * 2 * BLOCK;
            Ints high{}, low{};
            if constexpr (K == Q6_K) {
                dots<6, QUADS / 2>(weights, row, high, low);
                Ints whole = (high << 8) + low - subtracted(K) * sums[2 * at];
                sum[r] = fused(__builtin_convertvector(whole, Vec) * scales[at], scale, sum[r]);
                high = low = Ints{};
                dots<6, QUADS / 2>(weights + QUADS / 2, row + BLOCK / 2, high, low);
                whole = (high << 8) + low - subtracted(K) * sums[2 * at + 1];
                sum[r] = fused(__builtin_convertvector(whole, Vec) * scales[at], least, sum[r]);
                continue;
            }
            dots<bits(K), QUADS>(weights, row, high, low);
            const int32_t total = sums[2 * at] + sums[2 * at + 1];
            const Ints whole = (high << 8) + low - subtracted(K) * total;
            sum[r] = fused(__builtin_convertvector(whole, Vec) * scales[at], scale, sum[r]);
            if constexpr (has_least(K)) sum[r] = fused(least, float(total) * scales[at], sum[r]);
        }
    }
}

template <int R> inline void multiply_any_blocks(const Matrix &m, const Input &in, int first, int block, Vec (&sum)[R]) {
    switch (m.kind) {
    case Q4_0: return multiply_blocks<Q4_0, R>(m, in, first, block, sum);
    case Q4_1: return multiply_blocks<Q4_1, R>(m, in, first, block, sum);
    case Q5_0: return multiply_blocks<Q5_0, R>(m, in, first, block, sum);
    case Q5_1: return multiply_blocks<Q5_1, R>(m, in, first, block, sum);
    case Q4_K: return multiply_blocks<Q4_K, R>(m, in, first, block, sum);
    case Q5_K: return multiply_blocks<Q5_K, R>(m, in, first, block, sum);
    case Q6_K: return multiply_blocks<Q6_K, R>(m, in, first, block, sum);
    default: return multiply_blocks<Q8_0, R>(m, in, first, block, sum);
    }
}

// y = the product of a tile of R rows and V vectors of outputs from `block` on.
template <Kind K, int R, int V>
inline void multiply(const Matrix &m, const Input &in, int first, int block, Vec (&y)[R][V]) {
    if constexpr (blocked(K)) {
        for (int v = 0; v < V; v++) {
            Vec sum[R];
            multiply_any_blocks<R>(m, in, first, block + v, sum);
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
    } else if constexpr (K == PAIRS) {
        const long pairs = up(m.inputs, 2) / 2;
        const uint16_t *w = static_cast<const uint16_t *>(m.packed) + size_t(block) * pairs * W * 2;
        const uint32_t *x = in.pairs.data() + size_t(first) * pairs;
        Vec sum[R][V] = {};
        for (long k = 0; k < pairs; k++)
            for (int r = 0; r < R; r++)
                for (int v = 0; v < V; v++) sum[r][v] = dot_pairs(sum[r][v], x[k * R + r], w + (v * pairs + k) * W * 2);
        for (int r = 0; r < R; r++)
            for (int v = 0; v < V; v++) y[r][v] = sum[r][v];
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
    else if (kind == INT8) use(std::integral_constant<Kind, INT8>{});
    else if (kind == PAIRS) use(std::integral_constant<Kind, PAIRS>{});
    else use(std::integral_constant<Kind, Q4_0>{});  // for all blocks
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
    std::vector<float> stream, states, attended, active, branch;
    std::vector<std::vector<float>> row, scores;

    explicit Runner(const Model &from) : model(from), pool(from.threads), row(from.threads), scores(from.threads) {
        for (auto &one : row) one.resize(up(std::max({model.hidden, model.intermediate, model.heads * model.dim}), W));
        for (auto &one : scores) one.resize(size_t(QUERIES) * up(model.context, W));
    }

    long hidden() const { return up(model.hidden, W); }
    long wide() const { return up((model.heads + 2 * model.kv_heads) * model.dim, W) + W; }  // the last matrix may begin anywhere
    long joined() const { return up(model.heads * model.dim, W); }
    long inner() const { return up(model.intermediate, W); }
    long dim() const { return up(model.dim, W); }
    long context() const { return up(model.context, W); }

    void run(const Step &step) {
        pool.begin(step.threads);
        grow(stream, step.rows * hidden());
        grow(states, step.rows * wide());
        grow(attended, step.rows * joined());
        grow(active, step.rows * inner());
        pool.each(step.rows, [&](int at, int) {
            float *to = &stream[at * hidden()];
            embed(step.tokens[at], to);
            if (model.embedding_scale != 1)
                for (int k = 0; k < model.hidden; k++) to[k] *= model.embedding_scale;
        });
        for (int index = 0; index < model.layers; index++) layer(step, model.layer[index]);
        give(step);
        pool.end();
    }

  private:
    static void grow(std::vector<float> &buffer, size_t size) {
        if (buffer.size() < size) buffer.resize(size);
    }

    void embed_blocks(int token, float *to) const {
        switch (model.embedding_kind) {
        case Q4_0: return embed_blocks<Q4_0>(token, to);
        case Q4_1: return embed_blocks<Q4_1>(token, to);
        case Q5_0: return embed_blocks<Q5_0>(token, to);
        case Q5_1: return embed_blocks<Q5_1>(token, to);
        case Q4_K: return embed_blocks<Q4_K>(token, to);
        case Q5_K: return embed_blocks<Q5_K>(token, to);
        case Q6_K: return embed_blocks<Q6_K>(token, to);
        default: return embed_blocks<Q8_0>(token, to);
        }
    }

    template <Kind K> void embed_blocks(int token, float *to) const {
        const long blocks = model.hidden / BLOCK, lane = token % W;
        const uint8_t *group = static_cast<const uint8_t *>(model.embedding) + token / W * matrix_block_bytes(K, blocks);
        auto half = [lane](const uint8_t *from) {
            uint16_t half;
            std::memcpy(&half, from + lane * 2, 2);
            return half_to_float(half);
        };
        for (long b = 0; b < blocks; b++) {
            const uint8_t *record = group + record_place(K, b), *ends = record + number_bytes(K);
            const uint8_t *common = group + (grouped(K) ? record_place(K, b / GROUP * GROUP) - group_bytes(K) : 0);
            Ints weights[QUADS];
            unpack<K>(record, weights);
            float scale[2], least = 0;
            if constexpr (K == Q6_K) {
                for (int i = 0; i < 2; i++) scale[i] = half(common) * float(int8_t(ends[i * W + lane]));
            } else if constexpr (grouped(K)) {
                scale[0] = scale[1] = half(common) * float(ends[lane]);
                least = -(half(common + 2 * W) * float(ends[W + lane]));
            } else {
                scale[0] = scale[1] = half(ends);
                if constexpr (has_least(K)) least = half(ends + 2 * W);
            }
            for (int i = 0; i < BLOCK; i++) {
                const int number = (weights[i / 4][lane] >> (i % 4 * 8) & 255) - subtracted(K);
                to[b * BLOCK + i] = scale[i / (BLOCK / 2)] * float(number) + least;
            }
        }
    }

    void embed(int token, float *to) const {
        if (blocked(Kind(model.embedding_kind))) return embed_blocks(token, to);
        if (model.embedding_kind == PAIRS) {
            const uint16_t *from = static_cast<const uint16_t *>(model.embedding) + token / W * W * up(model.hidden, 2) + token % W * 2;
            for (long k = 0; k < model.hidden; k++) to[k] = bfloat16_to_float(from[k / 2 * W * 2 + k % 2]);
            return;
        }
        const long stride = model.embedding_packed ? W : 1;
        const long at = model.embedding_packed ? long(token) / W * W * model.hidden + token % W : long(token) * model.hidden;
        for (long k = 0; k < model.hidden; k++) {
            const long place = at + k * stride;
            if (model.embedding_kind == FLOAT32) {
                to[k] = static_cast<const float *>(model.embedding)[place];
            } else {
                to[k] = bfloat16_to_float(static_cast<const uint16_t *>(model.embedding)[place]);
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
                    normalise(values, norm, row[thread].data(), model.hidden);
                    values = row[thread].data();
                }
                input.take(tile, at, values, kind);
                if (m.rank) input.reduce(m, at, values);
            }
        });
    }

    // `to` may be `from`.
    void normalise(const float *from, const float *weight, float *to, int size) const {
        Vec squares{};
        long k = 0;
        for (; k + W <= size; k += W) squares = fused(load(from + k), load(from + k), squares);
        float sum = added(squares);
        for (; k < size; k++) sum += from[k] * from[k];
        const float scale = 1 / std::sqrt(sum / size + model.norm_eps);
        for (k = 0; k < size; k++) to[k] = from[k] * scale * weight[k];
    }

    void layer(const Step &step, const Layer &of) {
        prepare(of.qkv, stream.data(), hidden(), step.rows, of.attention_norm);
        int first = 0;
        for (const Matrix *m : {&of.qkv, &of.key, &of.value}) {
            // A low-rank addition of its own has another first factor.
            if (m != &of.qkv && m->rank) prepare(*m, stream.data(), hidden(), step.rows, of.attention_norm);
            product(pool, *m, nullptr, input, [&](int at, int place, Vec y) { store(&states[at * wide() + first + place], y); });
            first += m->outputs;
        }
        pool.each(step.rows, [&](int at, int) { place(of, step.slots[at], step.positions[at], &states[at * wide()]); });
        pool.each(step.groups * model.kv_heads, [&](int job, int thread) {
            const int group = job / model.kv_heads, kv_head = job % model.kv_heads;
            if (model.half_cache) attend<uint16_t>(step, of, group, kv_head, scores[thread].data());
            else attend<float>(step, of, group, kv_head, scores[thread].data());
        });
        prepare(of.output, attended.data(), joined(), step.rows, nullptr);
        add(step, of.output, of.attention_output_norm);
        prepare(of.gate, stream.data(), hidden(), step.rows, of.mlp_norm);
        product(pool, of.gate, &of.up, input, [&](int at, int place, Vec gate, Vec lift) {
            store(&active[at * inner() + place], (model.activation ? gelu(gate) : silu(gate)) * lift);
        });
        prepare(of.down, active.data(), inner(), step.rows, nullptr);
        add(step, of.down, of.mlp_output_norm);
    }

    // Adds a product to the stream, through a norm where there is one.
    void add(const Step &step, const Matrix &m, const float *norm) {
        if (!norm) {
            product(pool, m, nullptr, input, [&](int at, int place, Vec y) {
                float *to = &stream[at * hidden() + place];
                store(to, load(to) + y * model.residual_scale);
            });
            return;
        }
        grow(branch, step.rows * hidden());
        product(pool, m, nullptr, input, [&](int at, int place, Vec y) { store(&branch[at * hidden() + place], y); });
        pool.each(step.rows, [&](int at, int) {
            float *from = &branch[at * hidden()], *to = &stream[at * hidden()];
            normalise(from, norm, from, model.hidden);
            for (int k = 0; k < model.hidden; k++) to[k] += from[k] * model.residual_scale;
        });
    }

    // Turns queries and keys by their position, and remembers keys and values.
    void place(const Layer &of, int slot, int position, float *row) const {
        const int dim = model.dim, half = of.cosine ? model.rotated / 2 : 0;
        const float *cosine = of.cosine + long(position) * half, *sine = of.sine + long(position) * half;
        if (of.query_norm && model.row_norms) {
            float *keys = row + model.heads * dim;
            normalise(row, of.query_norm, row, model.heads * dim);
            normalise(keys, of.key_norm, keys, model.kv_heads * dim);
        }
        for (int head = 0; head < model.heads + model.kv_heads; head++) {
            float *low = row + head * dim, *high = low + half;
            if (of.query_norm && !model.row_norms) normalise_head(low, head < model.heads ? of.query_norm : of.key_norm);
            for (int i = 0; i < half; i++) {
                const float a = low[i], b = high[i];
                low[i] = a * cosine[i] - b * sine[i];
                high[i] = b * cosine[i] + a * sine[i];
            }
        }
        if (model.half_cache) return remember<uint16_t>(of, slot, position, row);
        remember<float>(of, slot, position, row);
    }

    // Puts keys and values where they belong. Number: float, or uint16_t for halves.
    template <class Number> void remember(const Layer &of, int slot, int position, const float *row) const {
        const int dim = model.dim;
        for (int head = 0; head < model.kv_heads; head++) {
            const float *key = row + (model.heads + head) * dim, *value = key + model.kv_heads * dim;
            const long at = long(slot) * model.kv_heads + head;
            Number *keys = static_cast<Number *>(of.keys) + (at * context() + position / W * W) * dim + position % W;
            Number *values = static_cast<Number *>(of.values) + (at * context() + position) * this->dim();
            for (int i = 0; i < dim; i++) put(keys + i * W, key[i]);
            for (int i = 0; i < dim; i++) put(values + i, value[i]);
        }
    }

    void normalise_head(float *head, const float *weight) const {
        float sum = 0;
        for (int i = 0; i < model.dim; i++) sum += head[i] * head[i];
        const float scale = 1 / std::sqrt(sum / model.dim + model.norm_eps);
        for (int i = 0; i < model.dim; i++) head[i] *= scale * weight[i];
    }

    template <class Number> void attend(const Step &step, const Layer &of, int group, int kv_head, float *scores) {
        const int first = step.group_first[group], share = model.heads / model.kv_heads;
        const int queries = step.group_rows[group] * share;
        const long at = long(step.slots[first]) * model.kv_heads + kv_head;
        const Number *keys = static_cast<const Number *>(of.keys) + at * context() * model.dim;
        const Number *values = static_cast<const Number *>(of.values) + at * context() * dim();
        for (int begin = 0; begin < queries; begin += QUERIES) {
            const float *query[QUERIES];
            float *to[QUERIES];
            int starts[QUERIES], ends[QUERIES];
            const int count = std::min(QUERIES, queries - begin);
            for (int q = 0; q < count; q++) {
                const int row = first + (begin + q) / share, head = kv_head * share + (begin + q) % share;
                query[q] = &states[row * wide() + head * model.dim];
                to[q] = &attended[row * joined() + head * model.dim];
                ends[q] = step.positions[row] + 1;
                starts[q] = of.window ? std::max(0, ends[q] - of.window) : 0;
            }
            with_rows<QUERIES>(count, [&](auto some) { attend_some<some()>(query, starts, ends, keys, values, scores, to); });
        }
    }

    // `starts` and `ends` ascend: the first query sees the first key, the last one the last. Keys that only others see add
    // nothing to a sum, so a row's result is the same.
    template <int Q, class Number>
    void attend_some(const float *const *query, const int *starts, const int *ends, const Number *keys, const Number *values, float *scores, float *const *to) const {
        const long stride = context(), end = up(ends[Q - 1], W);
        constexpr int MANY = W == 8 ? 1 : Q <= 2 ? 8 : Q <= 4 ? 4 : 2;
        const long begin = starts[0] / W * W;
        long key = begin;
        for (; key + MANY * W <= end; key += MANY * W) score<Q, MANY>(query, keys + key * model.dim, scores + key, stride);
        for (; key < end; key += W) score<Q, 1>(query, keys + key * model.dim, scores + key, stride);
        if (model.attention_cap)
            for (int q = 0; q < Q; q++)
                for (key = begin; key < end; key += W) {
                    float *some = scores + q * stride + key;
                    store(some, capped(load(some), model.attention_cap));
                }
        for (int q = 0; q < Q; q++) soften(scores + q * stride, begin, starts[q], ends[q], end);
        constexpr int WIDE = W == 8 ? 2 : Q <= 4 ? 4 : 2;
        long place = 0;
        for (; place + WIDE * W <= dim(); place += WIDE * W) gather<Q, WIDE>(scores, stride, starts[0], ends[Q - 1], values, place, to);
        for (; place < dim(); place += W) gather<Q, 1>(scores, stride, starts[0], ends[Q - 1], values, place, to);
    }

    template <int Q, int N, class Number>
    void score(const float *const *query, const Number *keys, float *scores, long stride) const {
        const float scale = 1 / std::sqrt(model.query_scalar);
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

    // Scores to probabilities; those from `begin` to `first` and from `limit` to `end` are 0.
    static void soften(float *scores, long begin, long first, long limit, long end) {
        for (long key = begin; key < first; key++) scores[key] = -INFINITY;
        for (long key = limit; key < end; key++) scores[key] = -INFINITY;
        Vec best = load(scores + begin);
        for (long key = begin + W; key < end; key += W) {
            const Vec some = load(scores + key);
            best = some > best ? some : best;
        }
        float most = best[0];
        for (int lane = 1; lane < W; lane++) most = std::max(most, best[lane]);
        Vec sum{};
        for (long key = begin; key < end; key += W) {
            const Vec some = exponential(load(scores + key) - most);
            store(scores + key, some);
            sum += some;
        }
        const float inverse = 1 / added(sum);
        for (long key = begin; key < end; key += W) store(scores + key, load(scores + key) * inverse);
    }

    template <int Q, int N, class Number>
    void gather(const float *scores, long stride, long begin, long end, const Number *values, long place, float *const *to) const {
        Vec sum[Q][N] = {};
        for (long key = begin; key < end; key++)
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
        product(pool, model.head, nullptr, input, [&](int at, int place, Vec y) {
            if (model.logit_divisor != 1) y = y / model.logit_divisor;
            store(step.logits + at * stride + place, model.logit_cap ? capped(y, model.logit_cap) : y);
        });
    }
};

extern "C" {

int32_t vector_width() { return W; }
int32_t queries_at_once() { return QUERIES; }
// Whether the processor multiplies pairs of bfloat16 numbers.
int32_t multiplies_pairs() {
#if defined(__AVX512BF16__) && defined(__AVX512F__)
    return 1;
#else
    return 0;
#endif
}
Runner *make_runner(const Model *model) { return new Runner(*model); }
void end_runner(Runner *runner) { delete runner; }
void run_step(Runner *runner, const Step *step) { runner->run(*step); }

}
