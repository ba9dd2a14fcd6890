#include "families.hpp"
namespace memest::hf {
std::span<const ModelType> other_types() { return {}; }
}  // namespace memest::hf
