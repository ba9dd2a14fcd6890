// Who shards the states: Megatron's distributed optimizer, or Megatron-FSDP by its strategy.
#include <array>

#include "reader/foreign/megatron/megatron.hpp"
#include "reader/text/scalar.hpp"

namespace memest::megatron {
namespace {

constexpr std::array<std::string_view, 5> kUnitSwitches = {
    "--use-megatron-fsdp", "--use-custom-fsdp", "ddp.use_megatron_fsdp", "ddp.use_custom_fsdp",
    "dist.use_megatron_fsdp"};

}  // namespace

void write_shares(ForeignImport& file) {
  const bool yaml = MegatronFile(file).is_yaml();
  const std::string_view distributed =
      yaml ? "ddp.use_distributed_optimizer" : "--use-distributed-optimizer";
  const std::string_view strategy =
      yaml ? "ddp.data_parallel_sharding_strategy" : "--data-parallel-sharding-strategy";
  const std::string_view meta =
      yaml ? "model.init_model_with_meta_device" : "--init-model-with-meta-device";
  for (const std::string_view key : kUnitSwitches) {
    if (!file.flag(key)) continue;
    const std::string named = file.text(strategy, "no_shard");
    if (named != "optim_grads_params") {
      return file.refuse(file.find(strategy) == nullptr ? key : strategy,
                         "Megatron's FSDP that shards by " + quote(named),
                         "optim_grads_params is followed");
    }
    if (!file.flag(meta)) {
      return file.write("parallelism.zero", "3", {key, strategy, distributed, meta});
    }
    file.write("parallelism.fsdp.version", "2", {key, strategy, distributed});
    return file.write("parallelism.fsdp.init", "meta", {meta});
  }
  if (file.flag(meta)) {
    return file.refuse(meta, "a model on the meta device without Megatron's FSDP",
                       "leave it out, or shard by optim_grads_params");
  }
  if (file.find(distributed) == nullptr) return;
  file.write("parallelism.distributed_optimizer", file.flag(distributed) ? "true" : "false",
             {distributed});
}

}  // namespace memest::megatron
