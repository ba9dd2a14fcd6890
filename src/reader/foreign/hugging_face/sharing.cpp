// The ranks of a Trainer's job and FSDP, which the arguments and accelerate's file decide.
#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "reader/foreign/hugging_face/hugging_face.hpp"
#include "reader/text/scalar.hpp"

namespace memest::hugging_face {
namespace {

constexpr std::string_view kType = "launch.distributed_type";
constexpr std::string_view kVersion[] = {"launch.fsdp_config.fsdp_version",
                                         "fsdp_config.fsdp_version", "fsdp_config.version",
                                         "fsdp_version"};
constexpr std::string_view kReshard[] = {"launch.fsdp_config.fsdp_reshard_after_forward",
                                         "fsdp_config.fsdp_reshard_after_forward",
                                         "fsdp_config.reshard_after_forward",
                                         "launch.fsdp_config.fsdp_sharding_strategy",
                                         "fsdp_config.fsdp_sharding_strategy",
                                         "fsdp_config.sharding_strategy",
                                         "fsdp"};
constexpr std::string_view kOffload[] = {"launch.fsdp_config.fsdp_offload_params",
                                         "fsdp_config.fsdp_offload_params",
                                         "fsdp_config.offload_params", "fsdp_config.cpu_offload"};
constexpr std::string_view kLoading[] = {"launch.fsdp_config.fsdp_cpu_ram_efficient_loading",
                                         "fsdp_config.fsdp_cpu_ram_efficient_loading",
                                         "fsdp_config.cpu_ram_efficient_loading"};
constexpr std::string_view kSync[] = {"launch.fsdp_config.fsdp_sync_module_states",
                                      "fsdp_config.fsdp_sync_module_states",
                                      "fsdp_config.sync_module_states"};
constexpr std::string_view kWrap[] = {"launch.fsdp_config.fsdp_auto_wrap_policy",
                                      "fsdp_config.fsdp_auto_wrap_policy",
                                      "fsdp_config.auto_wrap_policy"};

/// Whether the option stands in a text of options or in a list of them.
bool has_option(const ForeignImport& file, std::string_view key, std::string_view option) {
  const Value* value = file.find(key);
  if (value == nullptr) return false;
  const auto is_it = [option](const Value& item) { return is_same_word(item.text, option); };
  if (value->kind == ValueKind::sequence) return std::ranges::any_of(value->items, is_it);
  return value->text.find(option) != std::string::npos;
}

struct Strategy {
  std::string_view word;
  std::string_view reshards;  ///< YAML; empty: refused
};
// accelerate/utils/constants.py: FSDP_SHARDING_STRATEGY, which is counted from 1.
constexpr Strategy kStrategies[] = {
    {"true", "true"},
    {"FULL_SHARD", "true"},
    {"1", "true"},
    {"false", "false"},
    {"SHARD_GRAD_OP", "false"},
    {"2", "false"},
    {"NO_SHARD", ""},
    {"3", ""},
    {"HYBRID_SHARD", ""},
    {"4", ""},
    {"HYBRID_SHARD_ZERO2", ""},
    {"5", ""},
};

void write_reshard(ForeignImport& file) {
  const std::string_view key = file.written(kReshard);
  std::string word = file.text(key, "true");
  for (const std::string_view option :
       {"full_shard", "hybrid_shard", "shard_grad_op", "no_shard"}) {
    if (key == "fsdp" && has_option(file, key, option)) word = option;
  }
  if (key == "fsdp" && (word.find("_shard") == std::string::npos) && word != "shard_grad_op") {
    word = "true";
  }
  const auto* const row = std::ranges::find_if(kStrategies, [&word](const Strategy& candidate) {
    return is_same_word(candidate.word, word);
  });
  if (row == std::end(kStrategies) || row->reshards.empty()) {
    return file.refuse(key, "the sharding strategy " + quote(word),
                       "known are FULL_SHARD and SHARD_GRAD_OP");
  }
  file.write("parallelism.fsdp.reshard_after_forward", row->reshards, {key});
}

void write_fsdp(ForeignImport& file, std::string_view version_absent) {
  constexpr std::string_view kConfig = "fsdp_config";
  if (!file.text(kConfig).empty()) {
    return file.refuse(kConfig, "a file of FSDP's own keys", "write its keys here");
  }
  const std::string_view version = file.written(kVersion);
  const bool launched = is_same_word(file.text(kType), "FSDP");
  // accelerate's own default is 1 until a file says otherwise.
  const std::string number = file.text(version, launched ? "1" : version_absent);
  const std::string_view by = launched ? kType : std::string_view("fsdp");
  file.write("parallelism.fsdp.version", number, {version, by});
  file.credit(by, "parallelism.fsdp.version");
  write_reshard(file);
  const std::string_view offload = file.written(kOffload);
  const bool offloads = file.flag(offload) || has_option(file, "fsdp", "offload");
  if (offloads) {
    file.write("parallelism.offload", "{optimizer: cpu, parameters: cpu}", {offload, "fsdp"});
  }
  const std::string_view loading = file.written(kLoading);
  if (number == "2" && file.flag(loading)) {
    file.write("parallelism.fsdp.init", "meta", {loading});
  }
  const std::string_view sync = file.written(kSync);
  if (number == "1" && file.flag(sync)) {
    file.write("parallelism.fsdp.sync_module_states", "true", {sync});
  } else {
    file.drop(sync, "FSDP2 always does");
  }
  const std::string_view wrap = file.written(kWrap);
  const std::string policy = file.text(wrap, "TRANSFORMER_BASED_WRAP");
  if (!is_same_word(policy, "TRANSFORMER_BASED_WRAP")) {
    file.refuse(wrap, "division of FSDP's units by " + quote(policy),
                "known is TRANSFORMER_BASED_WRAP");
  } else {
    file.drop(wrap, "the units are the model's layers");
  }
}

void write_replicas(ForeignImport& file) {
  constexpr std::string_view kReplicas =
      "launch.parallelism_config.parallelism_config_dp_replicate_size";
  constexpr std::string_view kShards = "launch.parallelism_config.parallelism_config_dp_shard_size";
  const std::int64_t replicas = file.count(kReplicas).value_or(1);
  const std::int64_t shards = file.count(kShards).value_or(1);
  if (shards > 1 && !has_fsdp(file))
    return file.refuse(kShards, "sharding by accelerate without FSDP");
  if (replicas > 1 && has_fsdp(file)) {
    file.write("parallelism.fsdp.replicate", std::to_string(replicas), {kReplicas});
  }
  if (shards > 1) file.credit(kShards, "parallelism.fsdp.version");
}

void write_ranks(ForeignImport& file) {
  constexpr std::string_view kRanks = "launch.num_processes";
  constexpr std::string_view kNodes = "launch.num_machines";
  const auto ranks = file.count(kRanks);
  if (!ranks || *ranks < 1) return;
  file.write("hardware.count", std::to_string(*ranks), {kRanks});
  file.write("parallelism.data", std::to_string(*ranks), {kRanks});
  const std::int64_t nodes = file.count(kNodes).value_or(1);
  if (nodes > 1 && *ranks % nodes == 0) {
    file.write("hardware.gpus_per_node", std::to_string(*ranks / nodes), {kNodes});
  }
}

}  // namespace

bool has_deepspeed(const ForeignImport& file) {
  return file.find("ds") != nullptr || !file.text("deepspeed").empty() ||
         is_same_word(file.text(kType), "DEEPSPEED");
}

bool has_fsdp(const ForeignImport& file) {
  if (has_deepspeed(file)) return false;
  if (is_same_word(file.text(kType), "FSDP")) return true;
  const Value* own = file.find("fsdp");
  if (own != nullptr) {
    return !own->items.empty() || (!own->text.empty() && !is_same_word(own->text, "false"));
  }
  // axolotl takes fsdp_config alone.
  return file.find("base_model") != nullptr && file.find("fsdp_config") != nullptr &&
         !file.find("fsdp_config")->members.empty();
}

void write_sharing(ForeignImport& file, std::string_view version_absent) {
  constexpr std::string_view kKnown[] = {"NO", "MULTI_GPU", "FSDP", "DEEPSPEED"};
  const std::string type = file.text(kType, "NO");
  const bool known = std::ranges::any_of(
      kKnown, [&type](std::string_view word) { return is_same_word(word, type); });
  if (!known) {
    return file.refuse(kType, quote(type) + " under accelerate",
                       "known are NO, MULTI_GPU, FSDP and DEEPSPEED");
  }
  write_ranks(file);
  file.credit(kType, "parallelism");
  if (has_deepspeed(file)) return write_zero(file);
  if (has_fsdp(file)) write_fsdp(file, version_absent);
  write_replicas(file);
  constexpr std::string_view kBucket = "ddp_bucket_cap_mb";
  if (!has_fsdp(file) && file.find(kBucket) != nullptr) {
    file.write("parallelism.ddp.bucket_mb", file.text(kBucket), {kBucket});
  }
  constexpr std::string_view kUnused = "ddp_find_unused_parameters";
  if (!has_fsdp(file) && file.find(kUnused) != nullptr) {
    const bool finds = file.flag(kUnused);
    file.write("parallelism.ddp.find_unused_parameters", finds ? "true" : "false", {kUnused});
  }
}

}  // namespace memest::hugging_face
