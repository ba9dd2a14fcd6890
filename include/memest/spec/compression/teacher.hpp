// A second model whose answers stand in a step's loss: one that a student learns from, or a
// reference that preferences are taken against.
#pragma once

#include <cstdint>

#include "memest/spec/dtype.hpp"
#include "memest/spec/model.hpp"

namespace memest {

enum class TeacherUse : std::uint8_t {
  distillation,
  reference,     ///< log-probabilities of a model of its own
  own_reference  ///< of the trained model's weights without its adapters
};

/// In every micro-step the student's forward answers logits (or log-probabilities), the teacher's
/// runs behind it under torch.no_grad(), and the loss is made of both answers. The teacher is
/// frozen.
struct Teacher {
  ModelSpec model;
  DType weights = DType::bf16;
  TeacherUse use = TeacherUse::distillation;
};

}  // namespace memest
