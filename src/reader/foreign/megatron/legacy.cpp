// Layers of Megatron-LM before megatron-core: --use-legacy-models, flags that only those releases
// have, or DeepSpeed's fork.
#include <optional>
#include <string>

#include "reader/foreign/megatron/megatron.hpp"
#include "reader/text/scalar.hpp"

namespace memest::megatron {
namespace {

/// Megatron-DeepSpeed's arguments.py: zero_stage is 1.0 where it is left out; BF16_Optimizer, which
/// shares its states by itself, wants 0.
void write_deepspeed_of(const MegatronFile& megatron) {
  const std::string_view stage = megatron.key("zero_stage");
  const std::optional<double> written = number_of(megatron.text("zero_stage", "1"));
  const bool sums = megatron.flag("bf16", false);
  if (written != 1.0 && !(sums && written == 0.0)) {
    return megatron.file.refuse(
        stage, "ZeRO " + megatron.text("zero_stage") + " of DeepSpeed around Megatron's layers");
  }
  megatron.file.write("training.implementation.deepspeed", "true", {megatron.key("deepspeed")});
  // Modules whose class has such a name weigh 1, others nothing.
  const std::string_view method = megatron.key("pp_partition_method");
  std::string weighed = megatron.text("pp_partition_method", "type:transformer");
  std::erase(weighed, '\'');  // of a string that another shell is told
  if (weighed == "type:transformer|embedding") {
    megatron.file.write("parallelism.account_for_embedding", "true", {method});
    megatron.file.write("parallelism.account_for_loss", "true", {method});
  } else if (weighed != "type:transformer") {
    megatron.file.refuse(method, "the partition " + quote(weighed) + " of DeepSpeed's pipeline",
                         "known are type:transformer and type:transformer|embedding");
  }
  megatron.file.write("parallelism.zero", "1", {stage});
}

}  // namespace

bool writes_legacy_layers(const MegatronFile& megatron) {
  struct Fusion {
    std::string_view off;
    std::string_view own;
    std::string_view kernel;
  };
  constexpr Fusion kFusions[] = {
      {"no_masked_softmax_fusion", "training.implementation.masked_softmax_fusion",
       "the scaled softmax is one kernel"},
      {"no_bias_gelu_fusion", "training.implementation.bias_gelu_fusion",
       "bias and gelu are one kernel"},
      {"no_bias_dropout_fusion", "training.implementation.bias_dropout_fusion",
       "bias, dropout and sum are one kernel"}};
  ForeignImport& file = megatron.file;
  const bool around = megatron.flag("deepspeed", false);
  // Flags of releases before Transformer Engine.
  const std::string_view before =
      file.written({"--checkpoint-activations", "--activations-checkpoint-method"});
  const bool legacy =
      around || megatron.flag("use_legacy_models", false) || file.find(before) != nullptr;
  for (const Fusion& fusion : kFusions) {
    if (!megatron.flag(fusion.off, false)) continue;
    const std::string_view key = megatron.key(fusion.off);
    if (legacy) {
      file.write(fusion.own, "false", {key});
    } else {
      file.pass_over(key, std::string(fusion.kernel));
    }
  }
  if (!legacy) return false;
  const std::string_view told = megatron.key(around ? "deepspeed" : "use_legacy_models");
  file.write("training.implementation.layers", "legacy", {told, before});
  if (around) write_deepspeed_of(megatron);
  return true;
}

}  // namespace memest::megatron
