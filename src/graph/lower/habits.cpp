#include "habits.hpp"

#include <algorithm>
#include <array>

namespace memest {
namespace {

constexpr std::array kHabits = {
    Habits{.model_type = "gpt2", .softmax_in_type = true},
    Habits{.model_type = "bloom", .eager_only = true},
    Habits{.model_type = "opt", .positions_by_batch = true},
    Habits{.model_type = "falcon",
           .softmax_in_type = true,
           .masks_always = true,
           .separate_bias = true,
           .splits_by_index = true},
    Habits{.model_type = "phi3", .rotates_by_cat = true},
    Habits{.model_type = "olmo", .layer_norm = NormWriting::fp32},
    Habits{.model_type = "olmo2", .rms_norm = NormWriting::gain_then_cast},
    Habits{.model_type = "olmo3", .rms_norm = NormWriting::gain_then_cast},
    Habits{.model_type = "cohere", .layer_norm = NormWriting::python_layer},
    Habits{.model_type = "cohere2", .layer_norm = NormWriting::python_layer},
    Habits{.model_type = "gemma", .rms_norm = NormWriting::one_plus_gain, .scale_is_tensor = true},
    Habits{.model_type = "gemma2", .rms_norm = NormWriting::one_plus_gain, .scale_is_tensor = true},
    Habits{.model_type = "gemma3_text",
           .rms_norm = NormWriting::one_plus_gain,
           .scale_is_tensor = true},
};

constexpr Habits kLlama;

}  // namespace

const Habits& habits_of(std::string_view model_type) {
  const auto* found = std::find_if(kHabits.begin(), kHabits.end(), [&](const Habits& habits) {
    return habits.model_type == model_type;
  });
  return found == kHabits.end() ? kLlama : *found;
}

}  // namespace memest
