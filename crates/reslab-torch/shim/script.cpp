// TorchScript modules `forward(residual, branch_output) -> update`. tch binds modules too, but neither lists buffers nor
// looks at signatures. Called from src/ffi.rs only; errors as guard.h says.

#include <sstream>
#include <string>
#include <vector>

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include "guard.h"

namespace {

struct Named {
    std::string name;
    at::Tensor tensor;
};

std::vector<Named> named(const torch::jit::Module& module, bool buffers) {
    std::vector<Named> found;
    if (buffers) {
        for (const auto& buffer : module.named_buffers()) found.push_back({buffer.name, buffer.value});
    } else {
        for (const auto& parameter : module.named_parameters()) found.push_back({parameter.name, parameter.value});
    }
    return found;
}

void check_signature(const torch::jit::Module& module) {
    const auto forward = module.find_method("forward");
    TORCH_CHECK(forward, "it has no method `forward`");
    const auto& schema = forward->function().getSchema();
    const auto is_tensor = [](const c10::Argument& argument) { return argument.type()->isSubtypeOf(*c10::TensorType::get()); };
    const auto &arguments = schema.arguments(), &returns = schema.returns(); // the first argument is self
    const bool fits = arguments.size() == 3 && is_tensor(arguments[1]) && is_tensor(arguments[2]) &&
                      returns.size() == 1 && is_tensor(returns[0]);
    if (fits) return;
    std::ostringstream words;
    for (size_t index = 1; index < arguments.size(); ++index) {
        words << (index > 1 ? ", " : "") << arguments[index].name() << ": " << arguments[index].type()->annotation_str();
    }
    words << ") -> " << (returns.size() == 1 ? returns[0].type()->annotation_str() : "several values");
    TORCH_CHECK(false, "its method is `forward(", words.str(),
                "`, but must be `forward(residual: Tensor, branch_output: Tensor) -> Tensor`");
}

}  // namespace

extern "C" {

// device: -1 CPU, else the index of a CUDA device. It runs code of the file, as every load of a module does.
char* reslab_script_load(const char* data, size_t len, int32_t device, torch::jit::Module** out) {
    return guarded([&] {
        std::istringstream in(std::string(data, len));
        const auto place = device < 0 ? c10::Device(c10::kCPU) : c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device));
        auto module = torch::jit::load(in, place);
        check_signature(module);
        *out = new torch::jit::Module(std::move(module));
    });
}

void reslab_script_free(torch::jit::Module* module) { delete module; }

char* reslab_script_count(const torch::jit::Module* module, bool buffers, size_t* out) {
    return guarded([&] { *out = named(*module, buffers).size(); });
}

// Name (given back to `reslab_free`) and handle of one tensor: storage and gradient are shared with the module's.
char* reslab_script_tensor(const torch::jit::Module* module, bool buffers, size_t index, char** name, at::Tensor** out) {
    return guarded([&] {
        const auto found = named(*module, buffers).at(index);
        *out = new at::Tensor(found.tensor);
        *name = text(found.name.c_str());
    });
}

char* reslab_script_call(torch::jit::Module* module, const at::Tensor* residual, const at::Tensor* branch_output,
                         bool training, at::Tensor** out) {
    return guarded([&] {
        // The optimizing executor compiles other kernels after a few calls; a resumed run would round otherwise.
        torch::jit::GraphOptimizerEnabledGuard as_written(false);
        if (module->is_training() != training) module->train(training);
        *out = new at::Tensor(module->forward({*residual, *branch_output}).toTensor());
    });
}

}  // extern "C"
