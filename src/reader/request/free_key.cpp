#include "reader/request/free_key.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "memest/reader/schema.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

/// Keys that `memest plan` varies where a spec leaves them out.
constexpr std::array<std::string_view, 26> kSearched = {
    "training.implementation",
    "training.micro_batch",
    "training.precision",
    "training.recompute",
    "parallelism",
    "parallelism.account_for_embedding",
    "parallelism.account_for_loss",
    "parallelism.context",
    "parallelism.distributed_optimizer",
    "parallelism.expert",
    "parallelism.expert_tensor",
    "parallelism.first_stage_layers",
    "parallelism.fsdp",
    "parallelism.last_stage_layers",
    "parallelism.offload",
    "parallelism.overlap_grad_reduce",
    "parallelism.overlap_param_gather",
    "parallelism.pipeline",
    "parallelism.pipeline_layout",
    "parallelism.schedule",
    "parallelism.sequence",
    "parallelism.tensor",
    "parallelism.virtual_stages",
    "parallelism.zero",
    "hardware.count",
    "hardware.gpu",
};

/// Whether there was such a member.
bool erase(Value& table, std::string_view key) {
  return std::erase_if(table.members, [&](const Member& member) { return member.key == key; }) > 0;
}

Value* find(Value& table, std::string_view key) {
  const auto member = std::ranges::find(table.members, key, &Member::key);
  return member == table.members.end() ? nullptr : &member->value;
}

}  // namespace

std::vector<std::string> searched_keys() { return {kSearched.begin(), kSearched.end()}; }

void free_key(Value& root, const SourceText& key, Diagnostics& diagnostics) {
  const auto source = std::make_shared<const SourceText>(key);
  const auto error = [&](std::string message, std::string hint) {
    diagnostics.push_back(error_at({source, 1, 1, static_cast<std::int32_t>(key.text.size())},
                                   std::move(message), std::move(hint)));
  };
  if (std::ranges::find(kSearched, key.text) == kSearched.end()) {
    const std::string hint = suggestion(key.text, searched_keys());
    return error(
        "no search chooses " + quote(key.text),
        hint.empty() ? "what a plan chooses is in `training`, `parallelism` and `hardware`" : hint);
  }
  const std::size_t dot = key.text.find('.');
  Value* table = &root;
  std::string_view last = key.text;
  if (dot != std::string::npos) {
    table = find(root, last.substr(0, dot));
    last = last.substr(dot + 1);
  }
  if (table == nullptr || !erase(*table, last)) {
    error("nobody wrote " + quote(key.text) + ", so that it is free",
          "leave --free " + key.text + " out");
  }
}

}  // namespace memest
