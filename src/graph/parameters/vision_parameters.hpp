// Tensors of a multimodal model's tower and projector, before those of its decoder.
#pragma once

#include "graph/parameters/parameter_names.hpp"
#include "memest/spec/model.hpp"

namespace memest {

/// `decoder` behind the tower's and the projector's tensors, as the model's class registers them,
/// with the adapters of both. Frozen parts are not trainable, and neither are those that the
/// projector reads nothing of: no gradient comes to them.
Inventory with_vision(const Inventory& decoder, const ModelSpec& model);

/// The names of the tower's modules.
const DecoderNames& names_of(const VisionTower& tower);

/// The images' part of `model`, of which an adapter freezes all that it has no matrices in. peft
/// finds the modules of its targets by their names' ends: in the tower too, where the job does not
/// exclude it.
VisionPart vision_of(const ModelSpec& model);

}  // namespace memest
