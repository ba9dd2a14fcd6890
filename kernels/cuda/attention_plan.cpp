#include "kernels/cuda/attention_plan.hpp"

#include <array>
#include <cmath>
#include <memory>
#include <unordered_map>

#include "memest/diag/environment.hpp"

namespace memest::kernels {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Graph;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

enum Index : int { kQ, kK, kV, kO, kLse, kDo, kDq, kDk, kDv };
constexpr std::array kNames = {"q", "k", "v", "o", "lse", "do", "dq", "dk", "dv"};

void check(fe::error_t answer) {
  if (answer.is_bad()) throw EnvironmentError("cuDNN: " + answer.get_message());
}

bool is_of_group(Index index) { return index == kK || index == kV || index == kDk || index == kDv; }
bool has_value_dim(Index index) {
  return index == kV || index == kO || index == kDo || index == kDv;
}

/// The library counts [batch, heads, s, dim], however it lies.
void place(const AttentionShape& shape, Index index, fe::graph::Tensor_attributes& tensor) {
  const std::int64_t s = shape.seq_len;
  const std::int64_t heads = is_of_group(index) ? shape.kv_heads : shape.heads;
  const std::int64_t dim = has_value_dim(index) ? shape.value_head_dim : shape.head_dim;
  tensor.set_name(kNames.at(index)).set_uid(index + 1);
  if (index == kLse) {
    tensor.set_data_type(fe::DataType_t::FLOAT);
    tensor.set_dim({shape.batch, heads, s, 1}).set_stride({heads * s, s, 1, 1});
  } else {
    // [batch, s, heads, dim] in memory, as projections leave it: strides say so.
    tensor.set_dim({shape.batch, heads, s, dim});
    tensor.set_stride({s * heads * dim, dim, heads * dim, 1});
  }
}

Tensor input(Graph& graph, const AttentionShape& shape, Index index) {
  fe::graph::Tensor_attributes tensor;
  place(shape, index, tensor);
  return graph.tensor(tensor);
}
void output(const Tensor& tensor, const AttentionShape& shape, Index index) {
  place(shape, index, *tensor);
  tensor->set_output(true);
}

template <class Attributes>
Attributes attributes_of(const AttentionShape& shape) {
  return Attributes()
      .set_name("attention")
      .set_attn_scale(1 / std::sqrt(static_cast<float>(shape.head_dim)))
      .set_causal_mask(shape.causal);
}

void add_forward(Graph& graph, const AttentionShape& shape) {
  const auto [o, lse] =
      graph.sdpa(input(graph, shape, kQ), input(graph, shape, kK), input(graph, shape, kV),
                 // Training keeps the log-sum-exp for the backward.
                 attributes_of<fe::graph::SDPA_attributes>(shape).set_generate_stats(true));
  output(o, shape, kO);
  output(lse, shape, kLse);
}

void add_backward(Graph& graph, const AttentionShape& shape) {
  const auto [dq, dk, dv] = graph.sdpa_backward(
      input(graph, shape, kQ), input(graph, shape, kK), input(graph, shape, kV),
      input(graph, shape, kO), input(graph, shape, kDo), input(graph, shape, kLse),
      attributes_of<fe::graph::SDPA_backward_attributes>(shape));
  output(dq, shape, kDq);
  output(dk, shape, kDk);
  output(dv, shape, kDv);
}

Graph make_graph(const AttentionShape& shape) {
  Graph graph;
  graph.set_io_data_type(shape.dtype == DType::fp16 ? fe::DataType_t::HALF
                                                    : fe::DataType_t::BFLOAT16);
  graph.set_intermediate_data_type(fe::DataType_t::FLOAT);
  graph.set_compute_data_type(fe::DataType_t::FLOAT);
  shape.pass == KernelPass::forward ? add_forward(graph, shape) : add_backward(graph, shape);
  return graph;
}

/// The library's first refusal, or its consent.
fe::error_t ask(Graph& graph, cudnnHandle_t handle) {
  fe::error_t answer = graph.validate();
  if (answer.is_good()) answer = graph.build_operation_graph(handle);
  if (answer.is_good()) answer = graph.create_execution_plans({fe::HeurMode_t::A});
  if (answer.is_good()) answer = graph.check_support(handle);
  return answer;
}

}  // namespace

AttentionPlan::AttentionPlan(cudnnHandle_t handle, const AttentionShape& shape)
    : handle_(handle),
      operands_(shape.pass == KernelPass::forward ? kLse + 1 : kDv + 1),
      graph_(make_graph(shape)),
      answer_(ask(graph_, handle)) {}

void AttentionPlan::build() {
  if (is_built_) return;
  check(answer_);
  check(graph_.build_plans(handle_));
  is_built_ = true;
}

Bytes AttentionPlan::workspace() const { return Bytes(graph_.get_workspace_size()); }

void AttentionPlan::enqueue(void* const* operands, void* workspace, Stream stream) const {
  std::unordered_map<std::int64_t, void*> of_uid;
  for (int index = 0; index < operands_; ++index) of_uid[index + 1] = operands[index];
  if (fe::detail::set_stream(handle_, stream) != CUDNN_STATUS_SUCCESS) {
    throw EnvironmentError("cuDNN: does not take the stream");
  }
  check(graph_.execute(handle_, of_uid, workspace));
}

}  // namespace memest::kernels
