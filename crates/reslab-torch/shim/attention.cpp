// Self-attention for float32 on the CPU, forward and backward.
//
// libtorch's own kernel hands every head's product of a few dozen tokens to the matrix library by itself, which spends
// more time on packing than on multiplying (experiments/throughput). Here one head is packed once into buffers that stay
// in the cache, and its products run on a small register tile. Probabilities are computed again in the backward pass
// from the saved logarithm of their sum (Dao et al. 2022, arXiv:2205.14135, appendix B.2), so that memory grows with N.
//
// Heads are independent and each is computed by one thread, so the number of threads changes no bit.
//
// Shapes: B batch, N tokens, H heads, E = D / H width of a head. P(x): x rounded up to whole vectors.

#include <cmath>
#include <limits>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "guard.h"

#define INLINE inline __attribute__((always_inline))

namespace {

constexpr int64_t LANES = 8;
typedef float Lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(alignof(float)), may_alias));
typedef int32_t Bits __attribute__((vector_size(LANES * sizeof(int32_t)), may_alias));

// Rows of queries that are worked on at once: their N probabilities each stay in the cache.
constexpr int64_t ROWS = 96;
constexpr int64_t TILE_ROWS = 6;

int64_t padded(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

INLINE Lanes& lanes(float* at) { return *reinterpret_cast<Lanes*>(at); }
INLINE const Lanes& lanes(const float* at) { return *reinterpret_cast<const Lanes*>(at); }

// A matrix by its two strides, so that a transposed factor needs no copy.
struct Factor {
    const float* data;
    int64_t row, column;
};

// c[R, W * LANES] (+)= a[R, depth] b[depth, W * LANES]; b and c are contiguous in their rows.
template <int R, int W>
INLINE void tile(Factor a, const float* b, int64_t b_row, float* c, int64_t c_row, int64_t depth, bool add) {
    Lanes sum[R][W];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int w = 0; w < W; ++w) sum[r][w] = add ? lanes(c + r * c_row + w * LANES) : Lanes{};
    for (int64_t k = 0; k < depth; ++k) {
        Lanes right[W];
#pragma GCC unroll 8
        for (int w = 0; w < W; ++w) right[w] = lanes(b + k * b_row + w * LANES);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
            const float left = a.data[r * a.row + k * a.column];
#pragma GCC unroll 8
            for (int w = 0; w < W; ++w) sum[r][w] += left * right[w];
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int w = 0; w < W; ++w) lanes(c + r * c_row + w * LANES) = sum[r][w];
}

template <int W>
INLINE void strip(Factor a, const float* b, int64_t b_row, float* c, int64_t c_row, int64_t rows, int64_t depth, bool add) {
    int64_t r = 0;
    for (; r + TILE_ROWS <= rows; r += TILE_ROWS)
        tile<TILE_ROWS, W>({a.data + r * a.row, a.row, a.column}, b, b_row, c + r * c_row, c_row, depth, add);
    const Factor rest = {a.data + r * a.row, a.row, a.column};
    float* out = c + r * c_row;
    switch (rows - r) {
        case 5: return tile<5, W>(rest, b, b_row, out, c_row, depth, add);
        case 4: return tile<4, W>(rest, b, b_row, out, c_row, depth, add);
        case 3: return tile<3, W>(rest, b, b_row, out, c_row, depth, add);
        case 2: return tile<2, W>(rest, b, b_row, out, c_row, depth, add);
        case 1: return tile<1, W>(rest, b, b_row, out, c_row, depth, add);
    }
}

// c[rows, columns] (+)= a[rows, depth] b[depth, columns]; columns is a multiple of LANES.
INLINE void product(Factor a, const float* b, int64_t b_row, float* c, int64_t c_row, int64_t rows, int64_t columns,
                    int64_t depth, bool add) {
    int64_t column = 0;
    for (; column + 2 * LANES <= columns; column += 2 * LANES)
        strip<2>(a, b + column, b_row, c + column, c_row, rows, depth, add);
    if (column < columns) strip<1>(a, b + column, b_row, c + column, c_row, rows, depth, add);
}

// exp(x) for x <= 0, within 2 units in the last place; 0 below the smallest normal number; NaN stays NaN.
// Cody and Waite's reduction, then the Taylor series to degree 7 over |r| <= ln(2) / 2.
INLINE Lanes exp_of(Lanes x) {
    const Lanes lowest = Lanes{} - 87.33654f, zero = {};
    const Lanes bounded = x < lowest ? lowest : x;
    constexpr float to_integer = 12582912.0f; // 1.5 * 2^23: adding it leaves the integer part in the low bits
    const Lanes shifted = bounded * 1.442695041f + to_integer;
    const Lanes n = shifted - to_integer;
    const Lanes r = (bounded - n * 0.693359375f) + n * 2.12194440e-4f;
    Lanes series = r * (1.0f / 5040) + (1.0f / 720);
    series = series * r + (1.0f / 120);
    series = series * r + (1.0f / 24);
    series = series * r + (1.0f / 6);
    series = series * r + 0.5f;
    series = series * r + 1.0f;
    series = series * r + 1.0f;
    const Bits power = ((Bits)shifted + 127) << 23;
    return x < lowest ? zero : series * (Lanes)power;
}

INLINE float sum_of(Lanes x) {
    float total = 0;
    for (int i = 0; i < LANES; ++i) total += x[i];
    return total;
}

// One head of one image: where its N rows of E numbers stand within qkv [N, 3, H, E].
struct Head {
    const float *q, *k, *v;
    int64_t row, tokens, width;
};

INLINE void pack(const float* from, int64_t row, int64_t tokens, int64_t width, float factor, float* to, int64_t to_row) {
    for (int64_t t = 0; t < tokens; ++t)
        for (int64_t e = 0; e < width; ++e) to[t * to_row + e] = from[t * row + e] * factor;
}

INLINE void pack_transposed(const float* from, int64_t row, int64_t tokens, int64_t width, float* to, int64_t to_row) {
    for (int64_t t = 0; t < tokens; ++t)
        for (int64_t e = 0; e < width; ++e) to[e * to_row + t] = from[t * row + e];
}

// Space for one head, cleared once: what pads a row stays zero.
struct Space {
    std::vector<float> all;
    float* next;
    explicit Space(int64_t size) : all(size), next(all.data()) {}
    float* take(int64_t size) { return std::exchange(next, next + size); }
};

// scores [rows, P(N)] of scaled queries and transposed keys. What pads a row has probability 0, however low the others are.
INLINE void score(const float* q, const float* k_t, float* scores, int64_t rows, int64_t tokens, int64_t width) {
    const int64_t n = padded(tokens), e = padded(width);
    product({q, e, 1}, k_t, n, scores, n, rows, n, width, false);
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t t = tokens; t < n; ++t) scores[r * n + t] = -std::numeric_limits<float>::infinity();
}

struct ForwardSpace : Space {
    float *q, *k_t, *v, *scores, *out;
    ForwardSpace(int64_t tokens, int64_t width)
        : Space(padded(width) * (2 * tokens + ROWS) + padded(tokens) * (width + ROWS)) {
        const int64_t n = padded(tokens), e = padded(width);
        q = take(tokens * e), v = take(tokens * e), out = take(ROWS * e);
        k_t = take(width * n), scores = take(ROWS * n);
    }
};

// out: N rows of E numbers, `out_row` apart; log_sum: [N].
INLINE void forward_head(Head head, float scale, ForwardSpace& space, float* out, int64_t out_row, float* log_sum) {
    const int64_t tokens = head.tokens, width = head.width, n = padded(tokens), e = padded(width);
    pack(head.q, head.row, tokens, width, scale, space.q, e);
    pack(head.v, head.row, tokens, width, 1.0f, space.v, e);
    pack_transposed(head.k, head.row, tokens, width, space.k_t, n);
    for (int64_t start = 0; start < tokens; start += ROWS) {
        const int64_t rows = std::min(ROWS, tokens - start);
        score(space.q + start * e, space.k_t, space.scores, rows, tokens, width);
        for (int64_t r = 0; r < rows; ++r) {
            float* row = space.scores + r * n;
            Lanes top = lanes(row);
            for (int64_t t = LANES; t < n; t += LANES) top = lanes(row + t) > top ? lanes(row + t) : top;
            float largest = top[0];
            for (int i = 1; i < LANES; ++i) largest = top[i] > largest ? top[i] : largest;
            Lanes sum = {};
            for (int64_t t = 0; t < n; t += LANES) sum += lanes(row + t) = exp_of(lanes(row + t) - largest);
            const float total = sum_of(sum);
            for (int64_t t = 0; t < n; t += LANES) lanes(row + t) *= 1.0f / total;
            log_sum[start + r] = largest + std::log(total);
        }
        product({space.scores, n, 1}, space.v, e, space.out, e, rows, e, tokens, false);
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t i = 0; i < width; ++i) out[(start + r) * out_row + i] = space.out[r * e + i];
    }
}

struct BackwardSpace : Space {
    float *q, *k, *k_t, *v_t, *d_out, *p, *d_p, *d_q, *d_k, *d_v;
    BackwardSpace(int64_t tokens, int64_t width)
        : Space(padded(width) * (5 * tokens + ROWS) + padded(tokens) * 2 * (width + ROWS)) {
        const int64_t n = padded(tokens), e = padded(width);
        q = take(tokens * e), k = take(tokens * e), d_out = take(tokens * e);
        d_k = take(tokens * e), d_v = take(tokens * e), d_q = take(ROWS * e);
        k_t = take(width * n), v_t = take(width * n), p = take(ROWS * n), d_p = take(ROWS * n);
    }
};

// d_out: N rows, `out_row` apart; d_q, d_k, d_v: as in Head.
INLINE void backward_head(Head head, float scale, BackwardSpace& space, const float* log_sum, const float* d_out,
                          int64_t out_row, float* d_q, float* d_k, float* d_v) {
    const int64_t tokens = head.tokens, width = head.width, n = padded(tokens), e = padded(width);
    pack(head.q, head.row, tokens, width, scale, space.q, e);
    pack(head.k, head.row, tokens, width, 1.0f, space.k, e);
    pack(d_out, out_row, tokens, width, 1.0f, space.d_out, e);
    pack_transposed(head.k, head.row, tokens, width, space.k_t, n);
    pack_transposed(head.v, head.row, tokens, width, space.v_t, n);
    for (int64_t start = 0; start < tokens; start += ROWS) {
        const int64_t rows = std::min(ROWS, tokens - start);
        const float *q = space.q + start * e, *d_o = space.d_out + start * e;
        score(q, space.k_t, space.p, rows, tokens, width);
        product({d_o, e, 1}, space.v_t, n, space.d_p, n, rows, n, width, false);
        for (int64_t r = 0; r < rows; ++r) {
            float *p = space.p + r * n, *d_p = space.d_p + r * n;
            const float log_of_sum = log_sum[start + r];
            Lanes dot = {};
            for (int64_t t = 0; t < n; t += LANES) {
                lanes(p + t) = exp_of(lanes(p + t) - log_of_sum);
                dot += lanes(p + t) * lanes(d_p + t); // both are zero in padding
            }
            const float along = sum_of(dot);
            for (int64_t t = 0; t < n; t += LANES) lanes(d_p + t) = lanes(p + t) * (lanes(d_p + t) - along);
        }
        product({space.d_p, n, 1}, space.k, e, space.d_q, e, rows, e, tokens, false);
        product({space.d_p, 1, n}, q, e, space.d_k, e, tokens, e, rows, start > 0);
        product({space.p, 1, n}, d_o, e, space.d_v, e, tokens, e, rows, start > 0);
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t i = 0; i < width; ++i) d_q[(start + r) * head.row + i] = space.d_q[r * e + i] * scale;
    }
    for (int64_t t = 0; t < tokens; ++t)
        for (int64_t i = 0; i < width; ++i) {
            d_k[t * head.row + i] = space.d_k[t * e + i];
            d_v[t * head.row + i] = space.d_v[t * e + i];
        }
}

// The same code compiled twice; the processor decides which is run.
#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void forward_avx2(Head head, float scale, ForwardSpace& space, float* out,
                                                      int64_t out_row, float* log_sum) {
    forward_head(head, scale, space, out, out_row, log_sum);
}
__attribute__((target("avx2,fma"))) void backward_avx2(Head head, float scale, BackwardSpace& space,
                                                       const float* log_sum, const float* d_out, int64_t out_row,
                                                       float* d_q, float* d_k, float* d_v) {
    backward_head(head, scale, space, log_sum, d_out, out_row, d_q, d_k, d_v);
}
const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
void forward_any(Head head, float scale, ForwardSpace& space, float* out, int64_t out_row, float* log_sum) {
    forward_head(head, scale, space, out, out_row, log_sum);
}
void backward_any(Head head, float scale, BackwardSpace& space, const float* log_sum, const float* d_out,
                  int64_t out_row, float* d_q, float* d_k, float* d_v) {
    backward_head(head, scale, space, log_sum, d_out, out_row, d_q, d_k, d_v);
}

decltype(&forward_any) forward_form() {
#if defined(__x86_64__)
    if (has_avx2) return forward_avx2;
#endif
    return forward_any;
}
decltype(&backward_any) backward_form() {
#if defined(__x86_64__)
    if (has_avx2) return backward_avx2;
#endif
    return backward_any;
}

struct Shape {
    int64_t images, tokens, heads, width;
    Shape(const at::Tensor& qkv, int64_t heads)
        : images(qkv.size(0)), tokens(qkv.size(1)), heads(heads), width(qkv.size(2) / (3 * heads)) {}
    int64_t stream() const { return heads * width; }
    float scale() const { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(width))); }
    // Offset of a head within qkv [B, N, 3, H, E], and within [B, N, H, E].
    int64_t in_qkv(int64_t image, int64_t head) const { return image * tokens * 3 * stream() + head * width; }
    int64_t in_out(int64_t image, int64_t head) const { return image * tokens * stream() + head * width; }
    Head head(const float* qkv, int64_t image, int64_t head) const {
        const float* q = qkv + in_qkv(image, head);
        return {q, q + stream(), q + 2 * stream(), 3 * stream(), tokens, width};
    }
    template <typename Space, typename Body>
    void each_head(Body body) const {
        at::parallel_for(0, images * heads, 1, [&](int64_t begin, int64_t end) {
            Space space(tokens, width);
            for (int64_t index = begin; index < end; ++index) body(space, index / heads, index % heads);
        });
    }
};

struct Attention : torch::autograd::Function<Attention> {
    static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input, int64_t heads) {
        const at::Tensor qkv = input.contiguous();
        const Shape shape(qkv, heads);
        at::Tensor out = at::empty({shape.images, shape.tokens, shape.stream()}, qkv.options());
        at::Tensor log_sum = at::empty({shape.images, heads, shape.tokens}, qkv.options());
        const float* from = qkv.const_data_ptr<float>();
        float *to = out.mutable_data_ptr<float>(), *sums = log_sum.mutable_data_ptr<float>();
        const auto forward = forward_form();
        shape.each_head<ForwardSpace>([&](ForwardSpace& space, int64_t image, int64_t head) {
            forward(shape.head(from, image, head), shape.scale(), space, to + shape.in_out(image, head),
                         shape.stream(), sums + (image * heads + head) * shape.tokens);
        });
        context->save_for_backward({qkv, log_sum});
        context->saved_data["heads"] = heads;
        return out;
    }

    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                   torch::autograd::variable_list grads) {
        TORCH_CHECK(!at::GradMode::is_enabled(), "reslab's attention can be differentiated once");
        const auto saved = context->get_saved_variables();
        const auto &qkv = saved[0], &log_sum = saved[1];
        const int64_t heads = context->saved_data["heads"].toInt();
        const Shape shape(qkv, heads);
        const at::Tensor d_out = grads[0].contiguous();
        at::Tensor d_qkv = at::empty_like(qkv);
        const float *from = qkv.const_data_ptr<float>(), *sums = log_sum.const_data_ptr<float>(),
                    *d_to = d_out.const_data_ptr<float>();
        float* d_from = d_qkv.mutable_data_ptr<float>();
        const auto backward = backward_form();
        shape.each_head<BackwardSpace>([&](BackwardSpace& space, int64_t image, int64_t head) {
            float* d_q = d_from + shape.in_qkv(image, head);
            backward(shape.head(from, image, head), shape.scale(), space,
                          sums + (image * heads + head) * shape.tokens, d_to + shape.in_out(image, head),
                          shape.stream(), d_q, d_q + shape.stream(), d_q + 2 * shape.stream());
        });
        return {d_qkv, at::Tensor()};
    }
};

}  // namespace

extern "C" char* reslab_attention(const at::Tensor* qkv, int64_t heads, at::Tensor** out) {
    return guarded([&] {
        TORCH_CHECK(qkv->device().is_cpu() && qkv->scalar_type() == at::kFloat, "attention of ", qkv->toString());
        TORCH_CHECK(qkv->dim() == 3 && heads > 0 && qkv->size(2) % (3 * heads) == 0 && qkv->numel() > 0,
                    "attention of ", qkv->sizes(), " with ", heads, " heads");
        *out = new at::Tensor(Attention::apply(*qkv, heads));
    });
}
