// Tensors of a multimodal model's tower and projector, before those of its decoder.
#pragma once

#include "memest/spec/model.hpp"

namespace memest {

/// `decoder` behind the tower's and the projector's tensors, as the model's class registers them.
/// Frozen parts are not trainable, and neither are those that the projector reads nothing of: no
/// gradient comes to them.
Inventory with_vision(const Inventory& decoder, const VisionPart& vision, std::int64_t hidden_size);

}  // namespace memest
