#include "reader/export/adapter_key.hpp"

#include "reader/export/job_keys.hpp"
#include "reader/export/written.hpp"

namespace memest {
namespace {

std::string prompt(const Adapter& adapter) {
  std::string keys = "{" + std::string(name_of(adapter.kind)) +
                     ": {num_virtual_tokens: " + written_as(adapter.virtual_tokens);
  if (adapter.encoder_hidden_size > 0) {
    keys += ", encoder_hidden_size: " + written_as(adapter.encoder_hidden_size);
  }
  return keys + "}}";
}

}  // namespace

std::vector<std::string> parts_of_images(const Job& job) {
  std::vector<std::string> parts;
  if (!job.model.vision) return parts;
  const FrozenParts& frozen = job.model.vision->frozen;
  if (frozen.tower) parts.emplace_back("vision_tower");
  if (frozen.projector) parts.emplace_back("multi_modal_projector");
  if (frozen.decoder) parts.emplace_back("language_model");
  return parts;
}

std::string adapter_text(const Job& job) {
  const auto& adapter = job.model.adapter;
  if (!adapter) return written_as(kNoneWord);
  if (adapter->is_prompt()) return prompt(*adapter);
  const bool scales = adapter->kind == AdapterKind::ia3;
  std::string keys = "{" + std::string(name_of(adapter->kind)) + ": {";
  if (!scales) keys += "rank: " + written_as(adapter->rank) + ", ";
  keys += "targets: " + list(adapter->targets);
  if (scales) keys += ", feedforward: " + list(adapter->scaled_inputs);
  if (adapter->dropout > 0) keys += ", dropout: " + plain_decimal(adapter->dropout);
  keys += ", dtype: " + written_as(name_of(adapter->dtype));
  if (const auto parts = parts_of_images(job); !parts.empty()) {
    keys += ", exclude: " + list(parts);
  }
  if (!adapter->whole_modules.empty()) {
    keys += ", modules_to_save: " + list(adapter->whole_modules);
  }
  return keys + "}}";
}

}  // namespace memest
