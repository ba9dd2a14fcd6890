// Models with images: the tower and the projector of a multimodal config, and what a job says of
// them.
#pragma once

#include <optional>
#include <string_view>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/job.hpp"
#include "reader/hf/config_reader.hpp"

namespace memest {
namespace hf {

/// Whether the model type is known with its tower.
bool reads_images(std::string_view model_type);
/// Tower and projector of a config of such a type, whose text model is `decoder`: it gets the keys
/// of the config that are the decoder's, and those that no graph has.
VisionPart read_vision(std::string_view model_type, ConfigReader& config, DecoderSpec& decoder);
/// As above, of Qwen2-VL and Qwen2.5-VL.
VisionPart read_packed_vision(std::string_view model_type, ConfigReader& config,
                              DecoderSpec& decoder);
/// Whether a config of the type without a section of its text model has that model's keys beside
/// its own.
bool has_flat_text(std::string_view model_type);

}  // namespace hf

/// `training.images` and `training.freeze`, which say more of the model.
void read_images(const Value& training, ModelSpec& model, Diagnostics& diagnostics);
/// Refuses a model with images beside what no run of one was recorded with.
void check_images(const Value& root, const Job& job, Diagnostics& diagnostics);

}  // namespace memest
