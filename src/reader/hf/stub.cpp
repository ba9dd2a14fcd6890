#include "families.hpp"
namespace memest::hf {
std::span<const ModelType> encoder_types() { return {}; }
std::span<const ModelType> encoder_decoder_types() { return {}; }
std::span<const ModelType> vision_types() { return {}; }
std::span<const ModelType> other_types() { return {}; }
}  // namespace memest::hf
