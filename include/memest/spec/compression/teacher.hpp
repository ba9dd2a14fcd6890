// A larger model whose answers a student learns.
#pragma once

#include "memest/spec/dtype.hpp"
#include "memest/spec/model.hpp"

namespace memest {

/// In every micro-step the student's forward answers logits, the teacher's runs behind it under
/// torch.no_grad(), and the loss is made of both answers. The teacher is frozen.
struct Teacher {
  ModelSpec model;
  DType weights = DType::bf16;
};

}  // namespace memest
