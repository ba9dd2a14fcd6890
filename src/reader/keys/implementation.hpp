// Keys of `implementation` that some frameworks alone have.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "memest/spec/framework.hpp"
#include "memest/spec/implementation.hpp"
#include "reader/keys/keys.hpp"

namespace memest {

/// A key that is refused where the framework, or its layers, do not have it.
struct OwnKey {
  std::string_view name;
  bool (*belongs_to)(const FrameworkRow& framework);
  std::string_view owner;                ///< as its users call it
  bool Implementation::*flag = nullptr;  ///< that it sets; null where it is a word, read by itself
  std::optional<LayerSpec> layers = {};  ///< that alone have it
};

std::span<const OwnKey> own_keys();

}  // namespace memest
