#include "memory/states/state_sizes.hpp"

#include <utility>

#include "memest/diag/expect.hpp"
#include "memest/units/int128.hpp"
#include "memory/states/model_states.hpp"

namespace memest {
namespace {

// bitsandbytes: tensors under 4096 elements keep fp32 states; others one fp32 scale a block of 256.
constexpr std::int64_t kSmallest8bitTensor = 4096;
constexpr std::int64_t kBlock8bit = 256;
constexpr std::int64_t kBlockScaleBytes = 4;
// optim/optimizer.py, get_state_buffer: "if not self.is_paged or p.numel() < 1e5".
constexpr std::int64_t kSmallestPagedTensor = 100'000;

/// [rows, all other dimensions], as the factored optimizers see a tensor.
std::pair<std::int64_t, std::int64_t> matrix_of(const ParameterTensor& tensor) {
  return {tensor.shape.front(), elements_of(tensor) / tensor.shape.front()};
}

/// Whether the state of `tensor` is codes and their scales, if its shape is such.
bool takes_codes(const OptimizerState& state, const ParameterTensor& tensor) {
  const bool is_table = tensor.role == ParameterRole::embedding;
  return elements_of(tensor) >= kSmallest8bitTensor && !(state.wide_embeddings && is_table);
}

std::int64_t square_elements(std::int64_t size, std::int64_t largest) {
  return largest > 0 && size > largest ? 0 : checked_multiply(size, size);
}

}  // namespace

bool takes_part(const OptimizerState& state, const ParameterTensor& tensor) {
  const bool matrix = tensor.shape.size() >= 2;
  return tensor.trainable && !(state.matrices_only && !matrix) && !(state.vectors_only && matrix);
}

std::vector<std::int64_t> tensors_of(const OptimizerState& state, const ParameterTensor& tensor,
                                     std::int64_t bytes) {
  const std::int64_t elements = elements_of(tensor);
  const bool matrix = tensor.shape.size() >= 2;
  const auto whole = [&] { return std::vector<std::int64_t>{checked_multiply(elements, bytes)}; };
  switch (state.shape) {
    case StateShape::like_parameter:
      return whole();
    case StateShape::rows_and_columns: {
      if (!matrix) return whole();
      const auto [rows, columns] = matrix_of(tensor);
      return {checked_multiply(rows, bytes), checked_multiply(columns, bytes)};
    }
    case StateShape::blockwise_8bit:
      if (!takes_codes(state, tensor)) return {checked_multiply(elements, size_of(DType::fp32))};
      return {elements, kBlockScaleBytes * round_up_quotient(elements, kBlock8bit)};
    case StateShape::square_factors: {
      if (!matrix) return whole();
      const auto [rows, columns] = matrix_of(tensor);
      return {checked_multiply(square_elements(rows, state.largest_factor), bytes),
              checked_multiply(square_elements(columns, state.largest_factor), bytes)};
    }
    case StateShape::remainders:
      return {checked_multiply(elements, kRemainderBytes)};
    case StateShape::scalar:
      return {size_of(DType::fp32)};
  }
  unreachable("every state shape has a size");
}

std::size_t managed_tensors(const OptimizerState& state, const ParameterTensor& tensor) {
  return state.on_host && elements_of(tensor) >= kSmallestPagedTensor ? 1 : 0;
}

bool is_coded(const OptimizerState& state, const ParameterTensor& tensor) {
  return state.shape == StateShape::blockwise_8bit && takes_part(state, tensor) &&
         takes_codes(state, tensor);
}

std::string rule_of_state(const OptimizerState& state, DType type) {
  const std::string of = state.matrices_only  ? "over the matrices"
                         : state.vectors_only ? "over the other tensors"
                                              : "over all tensors";
  switch (state.shape) {
    case StateShape::like_parameter:
      return std::string(name_of(type)) + " elements " + of;
    case StateShape::rows_and_columns:
      return std::string(name_of(type)) + " rows + columns of a matrix, elements of a vector";
    case StateShape::blockwise_8bit:
      return "1 B an element + 4 B a block of 256; fp32 in tensors under 4096 elements" +
             std::string(state.wide_embeddings ? " and in embeddings" : "");
    case StateShape::square_factors:
      return std::string(name_of(type)) + " rows² + columns² of a matrix, elements of a vector";
    case StateShape::remainders:
      return "16 bits an element " + of;
    case StateShape::scalar:
      return "one fp32 a tensor";
  }
  unreachable("every state shape has a rule");
}

}  // namespace memest
