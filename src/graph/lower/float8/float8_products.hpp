// A float8 product op by op, as torchao's Python functions make and drop what it takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/lower/ops/course.hpp"
#include "graph/lower/ops/decoder_context.hpp"
#include "memest/graph/kernel_scratch.hpp"
#include "memest/spec/float8.hpp"

namespace memest {

/// A tensor of [rows, columns] as it lies in memory.
struct Float8Operand {
  TensorId tensor = 0;
  DType dtype = DType::bf16;
  Expr rows;
  Expr columns;
  TensorId one_a_row = 0;     ///< as large as a number for each
  TensorId one_a_column = 0;  ///< the same
  bool transposed = false;    ///< seen so, where it is cast
  bool rows_divided = false;  ///< over the tensor-parallel ranks, as a DTensor
  bool columns_divided = false;
};

/// The part of a tensor over which its largest value is taken.
enum class Float8Scales : std::uint8_t { whole, row, column };

/// A tensor in fp8 with its scale: cast by the course, or gathered so, when it makes neither.
struct Float8Cast {
  std::optional<Course::Made> data = {};
  std::optional<Course::Made> scale = {};
  TensorId scale_like = 0;
  Float8Scales scales = Float8Scales::whole;
};

/// Ends what a cast answers.
void drop(Course& course, const Float8Cast& cast);

/// A product of two that are cast.
struct Float8Product {
  TensorId like = 0;
  DType dtype = DType::bf16;
  std::optional<TensorId> left_copy = {};   ///< whose data does not lie by rows
  std::optional<TensorId> right_copy = {};  ///< whose data does not lie by columns
  /// As large as the scale of the whole right one repeated, where the left has one a row.
  std::optional<TensorId> repeated_scale = {};
  bool fast_accumulation = false;
  bool library = true;  ///< cuBLASLt's kernel, not one of PyTorch's own
};

class Float8Writer {
 public:
  /// `one` is as large as a number.
  Float8Writer(const DecoderContext& context, TensorId one);

  /// hp_tensor_to_float8_dynamic; what is in fp8 already stays as it is
  /// (tensor_already_casted_to_fp8).
  Float8Cast cast(Course& course, const Float8Operand& x, Float8Scales scales) const;
  /// preprocess_addmm, and addmm_float8_unwrapped: answers the result.
  Course::Made multiply(Course& course, const Float8Cast& left, const Float8Cast& right,
                        const Float8Product& product) const;

 private:
  [[nodiscard]] TensorId scale_like(const Float8Operand& x, Float8Scales scales) const;
  Course::Made largest(Course& course, const Float8Operand& x, Float8Scales scales) const;
  Course::Made scale_of(Course& course, const Float8Operand& x, Float8Scales scales) const;

  [[nodiscard]] Expr scratch_of(const KernelLaunch& maximum) const;

  Float8Recipe recipe_;
  TensorId one_;
  Bindings sizes_;
  std::optional<LaunchDevice> device_;  // none: its kernels are not known
};

}  // namespace memest
