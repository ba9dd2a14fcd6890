// Labels of what the loop and a model's parameters make.
#pragma once

#include <cstdint>

#include "memest/memory/timeline.hpp"

namespace memest {

/// `place`: of the parameter that it is made for, where it is made for one.
/// Label::op of what a unit makes: of one block, of the root, or of a module inside a block.
enum class UnitOf : std::uint16_t { block, root, experts };

inline Label loop_label(Holding holding, LoopTensor tensor, std::uint32_t place = 0) {
  Label label;
  label.holding = holding;
  label.place = place;
  label.tensor = static_cast<std::uint16_t>(tensor);
  return label;
}

/// `tensor`: 0 for the parameter itself, kMasterCopy, or an optimizer's state counted from 1.
inline Label parameter_label(Holding holding, std::size_t parameter, std::uint16_t tensor) {
  Label label;
  label.holding = holding;
  label.origin = Origin::parameter;
  label.place = static_cast<std::uint32_t>(parameter);
  label.tensor = tensor;
  return label;
}

}  // namespace memest
