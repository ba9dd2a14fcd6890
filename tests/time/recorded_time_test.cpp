// A recorded step's work: what each piece is, and when it is done.
#include "memest/time/recorded_time.hpp"

#include <array>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include "memest/reader/catalog.hpp"
#include "time/recorded/contractions.hpp"
#include "time/recorded/operator_traffic.hpp"
#include "time/recorded/recorded_calls.hpp"
#include "time/recorded/step_clock.hpp"

namespace memest {
namespace {

using Catch::Approx;

RecordedTensor tensor(DType dtype, std::vector<std::int64_t> shape, std::int64_t count = 1) {
  RecordedTensor tensor;
  tensor.dtype = dtype;
  tensor.element_bytes = size_of(dtype);
  tensor.count = count;
  tensor.shape = std::move(shape);
  for (const std::int64_t size : tensor.shape) tensor.stored *= size;
  return tensor;
}

RecordedTensor bf16(std::vector<std::int64_t> shape) {
  return tensor(DType::bf16, std::move(shape));
}

RecordedArgument given(RecordedTensor one) { return std::vector<RecordedTensor>{std::move(one)}; }

std::int64_t traffic(const std::string& name, std::vector<RecordedArgument> arguments,
                     std::vector<RecordedTensor> results) {
  return traffic_of({.name = name, .arguments = std::move(arguments), .results = results}).value();
}

StreamOp law(const std::string& name, std::vector<RecordedArgument> arguments,
             std::vector<RecordedTensor> results) {
  return stream_of({.name = name, .arguments = std::move(arguments), .results = results}).op;
}

constexpr std::int64_t kBytes = 2 * 64 * 128;  // of [64, 128] in bf16

// --- Traffic ---------------------------------------------------------------------------------

TEST_CASE("an operator reads what it is given and writes what it returns") {
  const auto x = given(bf16({64, 128}));
  CHECK(traffic("aten::add", {x, x, 1.0}, {bf16({64, 128})}) == 3 * kBytes);
  CHECK(traffic("aten::silu", {x}, {bf16({64, 128})}) == 2 * kBytes);
  // A bias of 128 is read once, whatever it is added to.
  CHECK(traffic("aten::add", {x, given(bf16({128}))}, {bf16({64, 128})}) == 2 * kBytes + 256);
}

TEST_CASE("a copy does not read what it overwrites, and a repeated tensor lies in memory once") {
  const auto x = given(bf16({64, 128}));
  const auto wide = given(tensor(DType::fp32, {64, 128}));
  CHECK(traffic("aten::copy_", {x, wide, 0.0}, {bf16({64, 128})}) == 3 * kBytes);
  CHECK(traffic("aten::fill_", {x, 0.0}, {bf16({64, 128})}) == kBytes);
  RecordedTensor expanded = bf16({64, 128});
  expanded.stored = 1;  // a gradient of a sum
  CHECK(traffic("aten::mul", {x, given(expanded)}, {bf16({64, 128})}) == 2 * kBytes + 2);
}

TEST_CASE("a table is read by as many rows as are looked up") {
  const auto table = given(bf16({50000, 128}));
  const auto ids = given(tensor(DType::int64, {64}));
  CHECK(traffic("aten::embedding", {table, ids}, {bf16({64, 128})}) == 2 * kBytes + 64 * 8);
  CHECK(traffic("aten::embedding_dense_backward", {given(bf16({64, 128})), ids, 50000.0},
                {bf16({50000, 128})}) == 3 * kBytes);
}

TEST_CASE("an optimizer writes the lists that its schema says") {
  const auto list = [](DType dtype) {
    return RecordedArgument(std::vector<RecordedTensor>{tensor(dtype, {64, 128}, 10)});
  };
  constexpr std::int64_t kList = 10 * 4 * 64 * 128;
  const auto fp32 = list(DType::fp32);
  // Parameters, gradients and two moments are read; all but the gradients are written.
  CHECK(traffic("aten::_fused_adamw_", {fp32, fp32, fp32, fp32}, {}) == 7 * kList);
  CHECK(traffic("aten::_foreach_mul_", {fp32, 0.9}, {}) == 2 * kList);
  CHECK(traffic("aten::_foreach_lerp_", {fp32, fp32, 0.1}, {}) == 3 * kList);
  CHECK(traffic("aten::_foreach_copy_", {fp32, fp32}, {}) == 2 * kList);
}

TEST_CASE("traffic follows the law of its kernel") {
  const auto x = given(bf16({64, 128}));
  const auto wide = given(tensor(DType::fp32, {64, 128}));
  const RecordedTensor out = bf16({64, 128});
  CHECK(law("aten::add", {x, x}, {out}) == StreamOp::add);
  CHECK(law("aten::mul", {x, RecordedArgument()}, {out}) == StreamOp::scale);
  CHECK(law("aten::mul", {x, given(bf16({128}))}, {out}) == StreamOp::by_element);
  CHECK(law("aten::copy_", {x, x}, {out}) == StreamOp::copy);
  CHECK(law("aten::copy_", {x, wide}, {out}) == StreamOp::cast);
  CHECK(law("aten::copy_", {wide, x}, {tensor(DType::fp32, {64, 128})}) == StreamOp::by_element);
  CHECK(law("aten::native_layer_norm_backward", {x}, {out}) == StreamOp::layernorm);
  CHECK(stream_of({.name = "aten::native_layer_norm_backward", .arguments = {x}, .results = {out}})
            .pass == KernelPass::backward);
  const StreamShape shape =
      stream_of({.name = "aten::_softmax", .arguments = {x}, .results = {out}});
  CHECK(shape.rows == 64);
  CHECK(shape.columns == 128);
}

// --- Contractions ------------------------------------------------------------------------------

TEST_CASE("a product of cuBLAS, which counts by columns, is a linear layer's") {
  // y[tokens, out] = x[tokens, in] · W[out, in]ᵀ.
  RecordedProduct product{.operand = DType::bf16, .result = DType::bf16};
  product.transposes_a = true;
  product.m = 4096;  // out
  product.n = 512;   // tokens
  product.k = 1024;  // in
  const MatmulShape forward = product_shape(product);
  CHECK(forward.pass == MatmulPass::forward);
  CHECK(forward.m == 512);
  CHECK(forward.n == 4096);
  CHECK(forward.k == 1024);
  CHECK(exact_flops(forward) == Flops(std::int64_t{2} * 512 * 4096 * 1024));
  product.transposes_a = false;
  CHECK(product_shape(product).pass == MatmulPass::data_gradient);
  product.transposes_b = true;
  CHECK(product_shape(product).pass == MatmulPass::weight_gradient);
}

TEST_CASE("fused attention has two products forward and five backward") {
  const RecordedTensor q = bf16({2, 512, 8, 64});
  const RecordedTensor kv = bf16({2, 512, 2, 64});
  const RecordedArgument none;
  RecordedOperator op{
      .name = "aten::_flash_attention_forward",
      .arguments = {given(q), given(kv), given(kv), none, none, 512.0, 512.0, 0.0, 1.0, 0.0},
      .results = {q}};
  const auto forward = attention_of(op);
  REQUIRE(forward);
  const auto& shape = std::get<AttentionShape>(forward->shape);
  CHECK(shape.causal);
  CHECK(shape.batch == 2);
  CHECK(shape.heads == 8);
  CHECK(shape.kv_heads == 2);
  CHECK(shape.seq_len == 512);
  constexpr std::int64_t kProduct = std::int64_t{2} * 2 * 8 * 512 * 512 * 64;
  CHECK(forward->flops == Flops(2 * kProduct));
  op.name = "aten::_flash_attention_backward";
  op.arguments.insert(op.arguments.begin(), given(q));
  const auto backward = attention_of(op);
  REQUIRE(backward);
  CHECK(std::get<AttentionShape>(backward->shape).pass == KernelPass::backward);
  CHECK(backward->flops == Flops(5 * kProduct));
}

TEST_CASE("a convolution is the product that it lowers to, twice backward") {
  const RecordedTensor image = tensor(DType::fp16, {4, 3, 224, 224});
  const RecordedTensor weight = tensor(DType::fp16, {64, 3, 7, 7});
  const RecordedTensor out = tensor(DType::fp16, {4, 64, 112, 112});
  const auto forward = convolution_of({.name = "aten::cudnn_convolution",
                                       .arguments = {given(image), given(weight)},
                                       .results = {out}});
  REQUIRE(forward);
  constexpr std::int64_t kFlops = std::int64_t{2} * 4 * 112 * 112 * 64 * 3 * 7 * 7;
  CHECK(forward->flops == Flops(kFlops));
  const auto backward = convolution_of({.name = "aten::convolution_backward",
                                        .arguments = {given(out), given(image), given(weight)},
                                        .results = {image, weight}});
  REQUIRE(backward);
  CHECK(backward->flops == Flops(2 * kFlops));
}

// --- The clock -----------------------------------------------------------------------------------

WorkItem kernel(std::size_t stream) { return {.stream = stream, .what = RecordedKernel()}; }
WorkItem recorded(std::size_t event, std::size_t stream) {
  return {.stream = stream, .what = EventRecorded{event}};
}
WorkItem awaited(std::size_t event, std::size_t stream) {
  return {.stream = stream, .what = EventAwaited{event}};
}

/// Each kernel takes `device` seconds, and the host `host` to ask for it.
double period(std::vector<WorkItem> items, double host, double device) {
  RecordedWork work;
  ItemSeconds seconds;
  for (const WorkItem& item : items) {
    const bool is_kernel = std::holds_alternative<RecordedKernel>(item.what);
    seconds.host.push_back(is_kernel ? host : 0);
    seconds.device.push_back(is_kernel ? device : 0);
  }
  work.items = std::move(items);
  return period_of(work, seconds);
}

TEST_CASE("a step takes as long as its kernels, or as the host that asks for them") {
  const std::vector<WorkItem> items(10, kernel(0));
  CHECK(period(items, 1, 3) == Approx(30));
  CHECK(period(items, 3, 1) == Approx(30));
}

TEST_CASE("streams work beside each other, but for what they wait for") {
  const std::vector<WorkItem> beside = {kernel(0), kernel(1), kernel(0), kernel(1)};
  CHECK(period(beside, 0, 1) == Approx(2));
  // The second stream's work waits for the first's, and the first's next for that.
  const std::vector<WorkItem> behind = {kernel(0),      recorded(7, 0), awaited(7, 1), kernel(1),
                                        recorded(8, 1), awaited(8, 0),  kernel(0)};
  CHECK(period(behind, 0, 1) == Approx(3));
}

TEST_CASE("a host that waits for the device does not run ahead of it") {
  std::vector<WorkItem> items = {kernel(0)};
  items.push_back({.what = HostWait{}});
  CHECK(period(items, 1, 3) == Approx(4));
  items.back().what = HostWait{HostWait::For::stream, 5};  // which has no work
  CHECK(period(items, 1, 3) == Approx(3));
}

// --- A step ------------------------------------------------------------------------------------

RecordedWork of_products(std::int64_t size, int count) {
  RecordedWork work;
  work.of = "step2";
  RecordedProduct product{.operand = DType::bf16, .result = DType::bf16, .transposes_a = true};
  product.m = product.n = product.k = size;
  work.operators.push_back({.name = "aten::mm"});
  for (int i = 0; i < count; ++i) work.items.push_back({.op = 1, .what = product});
  return work;
}

Hardware h100() {
  Hardware hardware;
  hardware.gpu = find_gpu("h100-sxm-80gb").value();
  return hardware;
}

TEST_CASE("large products bind a step to the device, small ones to the host") {
  const auto large = std::get<RecordedTime>(time_of(of_products(8192, 20), h100(), {}));
  CHECK(large.flops == 20 * Flops(std::int64_t{2} * 8192 * 8192 * 8192));
  CHECK(large.step.value() == Approx(large.device.value()));
  CHECK(large.utilisation > 0.4);
  CHECK(large.utilisation < 0.9);
  CHECK(large.low <= large.step);
  CHECK(large.step <= large.high);
  const auto small = std::get<RecordedTime>(time_of(of_products(64, 20), h100(), {}));
  CHECK(small.step.value() == Approx(small.host.value()));
  CHECK(small.device < small.host);
}

TEST_CASE("the sums by kind and by operator are those of all work") {
  RecordedWork work = of_products(1024, 5);
  const auto x = given(bf16({4096, 1024}));
  work.operators.push_back(
      {.name = "aten::add", .arguments = {x, x}, .results = {bf16({4096, 1024})}});
  work.kernels = {"add_kernel", "mystery"};
  // Two kernels of one operator share its traffic.
  work.items.push_back({.op = 2, .what = RecordedKernel{}});
  work.items.push_back({.op = 2, .what = RecordedKernel{}});
  work.items.push_back({.what = RecordedKernel{.name = 1}});
  const auto time = std::get<RecordedTime>(time_of(work, h100(), {}));
  CHECK(time.launches == 8);
  CHECK(time.unknown == std::vector<std::string>{"mystery"});
  const auto sum_of = [](const std::vector<RecordedWorkTime>& rows) {
    RecordedWorkTime sum;
    for (const RecordedWorkTime& row : rows) {
      sum.calls += row.calls;
      sum.flops += row.flops;
      sum.bytes += row.bytes;
      sum.seconds += row.seconds;
    }
    return sum;
  };
  for (const auto* rows : {&time.phases, &time.kinds, &time.operators}) {
    const RecordedWorkTime sum = sum_of(*rows);
    CHECK(sum.calls == time.launches);
    CHECK(sum.flops == time.flops);
    CHECK(sum.seconds.value() == Approx(time.device.value()));
  }
  const auto memory = std::ranges::find(time.kinds, "bound by memory", &RecordedWorkTime::name);
  REQUIRE(memory != time.kinds.end());
  CHECK(memory->bytes == Bytes(3 * 2 * 4096 * 1024));
}

TEST_CASE("a step's phases are what lies before their ends, micro-batches together") {
  RecordedWork work = of_products(1024, 7);
  const auto mark = [&work](std::ptrdiff_t at, const char* name) {
    work.items.insert(work.items.begin() + at, {.what = WorkMark{name}});
  };
  mark(7, "step2.optimizer");
  mark(5, "step2.backward");
  mark(3, "step2.forward");
  mark(2, "step2.backward");
  mark(1, "step2.forward");
  const auto time = std::get<RecordedTime>(time_of(work, h100(), {}));
  REQUIRE(time.phases.size() == 3);
  constexpr std::array kPhases = {std::pair{"forward", 2}, std::pair{"backward", 3},
                                  std::pair{"optimizer", 2}};
  for (std::size_t i = 0; i < kPhases.size(); ++i) {
    CHECK(time.phases[i].name == kPhases[i].first);
    CHECK(time.phases[i].calls == kPhases[i].second);
    CHECK(time.phases[i].flops == kPhases[i].second * Flops(std::int64_t{2} * 1024 * 1024 * 1024));
    CHECK(time.phases[i].seconds.value() == Approx(time.device.value() * kPhases[i].second / 7));
  }
  // What no phase ends behind, of a program without an optimizer say, is the rest.
  work = of_products(1024, 2);
  mark(2, "step1.unfinished");
  const auto whole = std::get<RecordedTime>(time_of(work, h100(), {}));
  REQUIRE(whole.phases.size() == 1);
  CHECK(whole.phases[0].name == "rest");
}

TEST_CASE("a module has its forward's kernels and those of the nodes that it made") {
  RecordedWork work = of_products(1024, 6);
  work.modules = {{}, {"Model", "Model"}, {"Linear", "fc"}};
  constexpr std::array<std::size_t, 6> kModules = {1, 2, 2, 2, 2, 0};
  for (std::size_t i = 0; i < kModules.size(); ++i) work.items[i].module = kModules[i];
  work.items.insert(work.items.begin() + 5, {.what = WorkMark{"step2.backward"}});
  work.items.insert(work.items.begin() + 2, {.what = WorkMark{"step2.forward"}});
  const auto time = std::get<RecordedTime>(time_of(work, h100(), {}));
  REQUIRE(time.module_times.size() == 2);
  const RecordedModuleTime& linear = time.module_times[0];
  CHECK(time.modules[linear.module].name == "fc");
  CHECK(linear.forward.calls == 1);
  CHECK(linear.backward.calls == 3);
  CHECK(linear.backward.flops == 3 * Flops(std::int64_t{2} * 1024 * 1024 * 1024));
  CHECK(linear.backward.seconds.value() == Approx(time.device.value() / 2));
  CHECK(time.module_times[1].forward.calls == 1);
  CHECK(time.module_times[1].backward.calls == 0);
}

TEST_CASE("a product in a type that the GPU has no rate of has no time") {
  RecordedWork work = of_products(1024, 1);
  std::get<RecordedProduct>(work.items[0].what).operand = DType::fp8;
  Hardware hardware = h100();
  CHECK(std::holds_alternative<RecordedTime>(time_of(work, hardware, {})));
  hardware.gpu = find_gpu("a100-sxm-80gb").value();
  CHECK(std::get<Unavailable>(time_of(work, hardware, {})).sentence ==
        "no fp8 rate is known for " + hardware.gpu.name);
}

TEST_CASE("streams and events may have any numbers") {
  constexpr std::size_t kLarge = std::size_t{1} << 40U;
  // A step's second kernel runs beside the next one's first.
  CHECK(period({kernel(kLarge), recorded(kLarge, kLarge), awaited(kLarge, 0), kernel(0)}, 0, 1) ==
        Approx(1));
}

TEST_CASE("a step without what its time needs has none") {
  RecordedWork work = of_products(1024, 1);
  work.items.push_back(
      {.what = RecordedMessage{RecordedMessageKind::all_reduce, Bytes(1 << 20), 8}});
  Hardware hardware = h100();
  CHECK(std::holds_alternative<RecordedTime>(time_of(work, hardware, {})));
  hardware.gpu.memory_bandwidth.reset();
  CHECK(std::get<Unavailable>(time_of(work, hardware, {})).sentence ==
        "no memory bandwidth is known for " + hardware.gpu.name);
}

}  // namespace
}  // namespace memest
