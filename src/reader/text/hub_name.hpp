// Names of models on the Hugging Face Hub: memest reads no network, so it says what to download.
#pragma once

#include <string>
#include <string_view>

namespace memest {

/// Whether `name` is written as the Hub names a model: "meta-llama/Llama-3.1-8B", no file's name.
bool is_hub_name(std::string_view name);

/// Hint at what to write: a preset where its name is part of `name`, and the command that gets the
/// model's config.json. Empty where `name` is no Hub name.
std::string hint_of_hub_name(std::string_view name);

}  // namespace memest
