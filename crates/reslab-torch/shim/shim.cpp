// The parts of libtorch that tch 0.24 does not bind. Called from src/ffi.rs only, which mirrors every signature here.
//
// Tensors cross the border as `at::Tensor*`, which is what tch's `Tensor::as_ptr` gives; errors as guard.h says.

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/stack.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/headeronly/version.h>

#include "guard.h"

namespace {

// Nothing here is part of a graph.
template <typename Body>
char* without_grad(Body body) noexcept {
    return guarded([&] {
        at::NoGradGuard no_grad;
        body();
    });
}

// A flag that cannot be read counts as off.
template <typename Body>
bool flag(Body body) noexcept {
    try {
        return body();
    } catch (...) {
        return false;
    }
}

struct List {
    const at::Tensor* const* data;
    size_t len;

    // Handles only: storage is shared.
    std::vector<at::Tensor> get() const {
        std::vector<at::Tensor> tensors;
        tensors.reserve(len);
        for (size_t index = 0; index < len; ++index) tensors.push_back(*data[index]);
        return tensors;
    }
};

struct AdamW {
    double lr, beta1, beta2, weight_decay, eps;
};

struct Sgd {
    double lr, momentum, weight_decay;
};

struct Autocast {
    int32_t device;
    int32_t enabled, dtype, cache;
};

at::Tensor stacked_norms(const std::vector<at::Tensor>& tensors) {
    return at::stack(at::_foreach_norm(tensors, 2));
}

// The fused CPU kernels read and write by the parameter's length and trust that the rest agrees.
void check_alike(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& others, const char* what) {
    TORCH_CHECK(parameters.size() == others.size(), others.size(), " of ", what, " for ", parameters.size(), " parameters");
    for (size_t index = 0; index < parameters.size(); ++index) {
        const auto &parameter = parameters[index], &other = others[index];
        TORCH_CHECK(parameter.is_contiguous() && other.is_contiguous(), what, " ", index, " is not contiguous");
        TORCH_CHECK(parameter.sizes() == other.sizes() && parameter.scalar_type() == other.scalar_type() &&
                        parameter.device() == other.device(),
                    what, " ", index, " is ", other.toString(), other.sizes(), ", but its parameter is ",
                    parameter.toString(), parameter.sizes());
    }
}

}  // namespace

extern "C" {

void reslab_free(char* text) { free(text); }

// ---- optimizers

char* reslab_fused_adamw(List parameters, List grads, List exp_avg, List exp_avg_sq, List steps, AdamW rule) {
    return without_grad([&] {
        auto w = parameters.get(), g = grads.get(), m = exp_avg.get(), v = exp_avg_sq.get(), t = steps.get();
        check_alike(w, g, "gradient");
        check_alike(w, m, "exp_avg");
        check_alike(w, v, "exp_avg_sq");
        TORCH_CHECK(t.size() == w.size(), t.size(), " step counts for ", w.size(), " parameters");
        at::_foreach_add_(t, 1);
        at::_fused_adamw_(w, g, m, v, {}, t, rule.lr, rule.beta1, rule.beta2, rule.weight_decay, rule.eps,
                          /*amsgrad=*/false, /*maximize=*/false);
    });
}

// Buffers of zeros make the first step like every other: 0 * momentum + grad is what torch sets it to.
char* reslab_fused_sgd(List parameters, List grads, List momentum, Sgd rule) {
    return without_grad([&] {
        auto w = parameters.get(), g = grads.get(), buffers = momentum.get();
        check_alike(w, g, "gradient");
        if (rule.momentum != 0.0) check_alike(w, buffers, "momentum");
        at::_fused_sgd_(w, g, buffers, rule.weight_decay, rule.momentum, rule.lr, /*dampening=*/0.0,
                        /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/false);
    });
}

// ---- foreach

char* reslab_foreach_norms(List tensors, at::Tensor** out) {
    return without_grad([&] { *out = new at::Tensor(stacked_norms(tensors.get()).to(at::kFloat)); });
}

char* reslab_foreach_norm(List tensors, at::Tensor** out) {
    return without_grad([&] { *out = new at::Tensor(stacked_norms(tensors.get()).norm().to(at::kFloat)); });
}

char* reslab_foreach_distance(List a, List b, at::Tensor** out) {
    return without_grad([&] {
        auto difference = at::_foreach_sub(a.get(), b.get());
        *out = new at::Tensor(stacked_norms(difference).norm().to(at::kFloat));
    });
}

char* reslab_foreach_clip(List grads, const at::Tensor* norm, double max) {
    return without_grad([&] {
        auto tensors = grads.get();
        auto factor = norm->add(1e-6).reciprocal().mul(max).clamp_max(1.0);
        at::_foreach_mul_(tensors, factor.to(tensors.front().scalar_type()));
    });
}

char* reslab_foreach_lerp(List into, List from, double weight) {
    return without_grad([&] { at::_foreach_lerp_(into.get(), from.get(), weight); });
}

char* reslab_foreach_copy(List into, List from) {
    return without_grad([&] { at::_foreach_copy_(into.get(), from.get()); });
}

// As if nothing had been computed yet: the next backward pass then stores its gradients instead of adding them to zeros.
char* reslab_forget_grads(List parameters) {
    return without_grad([&] {
        for (const auto& parameter : parameters.get()) parameter.mutable_grad() = at::Tensor();
    });
}

// ---- switches of the process

char* reslab_set_threads(int32_t n) {
    return without_grad([&] { at::set_num_threads(n); });
}

char* reslab_set_interop_threads(int32_t n) {
    return without_grad([&] { at::set_num_interop_threads(n); });
}

// A training step frees all its activations and asks for them again in the next step. glibc gives large blocks back to
// the kernel at once, which must then clear every page again (tests/memory.rs counts them). And the heap is
// asked to consist of huge pages, which spares address translation where a network walks through hundreds of megabytes.
void reslab_keep_freed_memory() {
#if defined(__GLIBC__)
    constexpr int mmap_threshold = 32 << 20; // the largest that glibc takes
    mallopt(M_MMAP_THRESHOLD, mmap_threshold);
    mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
    // One block that does not fit makes the heap grow by this. It is address space only, until it is used.
    mallopt(M_TOP_PAD, std::numeric_limits<int>::max());
    if (void* block = malloc(mmap_threshold - 4096)) {
        constexpr uintptr_t huge = 2 << 20;
        const uintptr_t start = (reinterpret_cast<uintptr_t>(block) + huge - 1) / huge * huge;
        const uintptr_t end = reinterpret_cast<uintptr_t>(sbrk(0)) / huge * huge;
        // The block is elsewhere, and `end` below it, where the heap could not grow. A refusal costs speed alone.
        if (end > start) madvise(reinterpret_cast<void*>(start), end - start, MADV_HUGEPAGE);
        free(block);
    }
    mallopt(M_TOP_PAD, 64 << 20);
#endif
}

char* reslab_set_deterministic(bool on) {
    return without_grad([&] {
        // cuBLAS is deterministic only with a fixed workspace. It reads the variable when its first handle is made, and
        // libtorch refuses matrix products without it. What the user has set stays.
        if (on && setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0) != 0) {
            TORCH_CHECK(false, "CUBLAS_WORKSPACE_CONFIG can't be set: ", strerror(errno));
        }
        auto& context = at::globalContext();
        context.setDeterministicAlgorithms(on, /*warn_only=*/false);
        context.setDeterministicCuDNN(on);
        context.setBenchmarkCuDNN(!on);
        // Else every new tensor is filled with NaN; no code here reads memory that it has not written.
        context.setDeterministicFillUninitializedMemory(false);
    });
}

// Flash, memory-efficient and cuDNN attention have backwards that are not deterministic on CUDA.
char* reslab_set_math_attention_only(bool on) {
    return without_grad([&] {
        auto& context = at::globalContext();
        context.setSDPUseFlash(!on);
        context.setSDPUseMemEfficient(!on);
        context.setSDPUseCuDNN(!on);
        context.setSDPUseMath(true);
    });
}

char* reslab_set_tf32(bool on) {
    return without_grad([&] {
        at::globalContext().setAllowTF32CuBLAS(on);
        at::globalContext().setAllowTF32CuDNN(on);
    });
}

bool reslab_is_deterministic() {
    return flag([] { return at::globalContext().deterministicAlgorithms(); });
}

bool reslab_uses_flash_attention() {
    return flag([] { return at::globalContext().userEnabledFlashSDP(); });
}

bool reslab_uses_tf32() {
    return flag([] { return at::globalContext().allowTF32CuBLAS(); });
}

uint64_t reslab_runtime_version() { return aoti_torch_abi_version(); }

const char* reslab_header_version() { return TORCH_VERSION; }

// ---- autocast (state of the calling thread), by c10::DeviceType

char* reslab_autocast_state(int32_t device, Autocast* out) {
    return without_grad([&] {
        auto type = static_cast<at::DeviceType>(device);
        *out = {device, at::autocast::is_autocast_enabled(type),
                static_cast<int32_t>(at::autocast::get_autocast_dtype(type)),
                at::autocast::is_autocast_cache_enabled()};
    });
}

char* reslab_autocast_enter(int32_t device, bool on) {
    return without_grad([&] {
        auto type = static_cast<at::DeviceType>(device);
        at::autocast::set_autocast_dtype(type, at::kBFloat16);
        at::autocast::set_autocast_enabled(type, on);
        at::autocast::increment_nesting();
    });
}

char* reslab_autocast_leave(Autocast before) {
    return without_grad([&] {
        auto type = static_cast<at::DeviceType>(before.device);
        // The cache holds bf16 copies of weights, which are stale after the optimizer's step.
        if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
        at::autocast::set_autocast_enabled(type, before.enabled);
        at::autocast::set_autocast_dtype(type, static_cast<at::ScalarType>(before.dtype));
        at::autocast::set_autocast_cache_enabled(before.cache);
    });
}

// ---- the CUDA allocator, reached without linking libtorch_cuda

char* reslab_cuda_peak_bytes(int32_t device, int64_t* out) {
    return without_grad([&] {
        auto* allocator = c10::getDeviceAllocator(at::kCUDA);
        auto aggregate = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
        *out = allocator->initialized() ? allocator->getDeviceStats(device).allocated_bytes[aggregate].peak : 0;
    });
}

char* reslab_cuda_reset_peak(int32_t device) {
    return without_grad([&] {
        auto* allocator = c10::getDeviceAllocator(at::kCUDA);
        if (allocator->initialized()) allocator->resetPeakStats(device);
    });
}

char* reslab_cuda_empty_cache() {
    return without_grad([&] {
        auto* allocator = c10::getDeviceAllocator(at::kCUDA);
        if (allocator->initialized()) allocator->emptyCache();
    });
}

}  // extern "C"
