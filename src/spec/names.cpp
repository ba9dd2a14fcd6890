// The words of the specs' enumerations, as users write and read them.

#include <string>
#include <string_view>
#include <variant>

#include "memest/spec/gpu/gpu.hpp"
#include "memest/spec/model.hpp"
#include "memest/spec/parallel/parallelism.hpp"
#include "memest/spec/training.hpp"

namespace memest {
namespace {

/// A visitor made of one lambda a case.
template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

}  // namespace

std::string_view name_of(Float8Recipe recipe) {
  switch (recipe) {
    // torchao's Float8LinearRecipeName.
    case Float8Recipe::tensorwise:
      return "tensorwise";
    case Float8Recipe::rowwise:
      return "rowwise";
    case Float8Recipe::rowwise_with_gw_hp:
      return "rowwise_with_gw_hp";
  }
  return "";
}

std::string_view name_of(DType type) {
  switch (type) {
    case DType::fp32:
      return "fp32";
    case DType::bf16:
      return "bf16";
    case DType::fp16:
      return "fp16";
    case DType::fp8:
      return "fp8";
    case DType::fp4:
      return "fp4";
    case DType::fp64:
      return "fp64";
    case DType::int64:
      return "int64";
    case DType::int32:
      return "int32";
    case DType::int8:
      return "int8";
    case DType::uint8:
      return "uint8";
    case DType::boolean:
      return "bool";
  }
  return "";
}

std::string_view name_of(Family family) {
  switch (family) {
    case Family::decoder:
      return "decoder";
    case Family::encoder:
      return "encoder";
    case Family::encoder_decoder:
      return "encoder-decoder";
    case Family::vision:
      return "vision";
    case Family::convnet:
      return "convnet";
    case Family::layer_list:
      return "layers";
  }
  return "";
}

std::string_view name_of(OptimizerImplementation implementation) {
  switch (implementation) {
    case OptimizerImplementation::foreach_:
      return "foreach";
    case OptimizerImplementation::fused:
      return "fused";
    case OptimizerImplementation::for_loop:
      return "for-loop";
  }
  return "";
}

std::string_view name_of(Reshard reshard) {
  switch (reshard) {
    case Reshard::always:
      return "always";
    case Reshard::all_but_last:
      return "default";
    case Reshard::never:
      return "never";
  }
  return "";
}

std::string_view name_of(ShardInit init) {
  switch (init) {
    case ShardInit::meta:
      return "meta";
    case ShardInit::host:
      return "host";
    case ShardInit::device:
      return "device";
  }
  return "";
}

std::string_view name_of(ContextExchange exchange) {
  switch (exchange) {
    case ContextExchange::ring:
      return "ring";
    case ContextExchange::all_to_all:
      return "all-to-all";
  }
  return "";
}

std::string_view name_of(OffloadDevice device) {
  switch (device) {
    case OffloadDevice::none:
      return "none";
    case OffloadDevice::cpu:
      return "cpu";
    case OffloadDevice::nvme:
      return "nvme";
  }
  return "";
}

std::string_view name_of(Schedule schedule) {
  switch (schedule) {
    case Schedule::one_f_one_b:
      return "1f1b";
    case Schedule::interleaved:
      return "interleaved";
    case Schedule::zero_bubble:
      return "zero-bubble";
    case Schedule::zbv:
      return "zbv";
    case Schedule::dual_pipe_v:
      return "dualpipe-v";
    case Schedule::gpipe:
      return "gpipe";
  }
  return "";
}

std::string_view name_of(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::sdpa:
      return "sdpa";
    case AttentionKernel::sdpa_flash:
      return "sdpa-flash";
    case AttentionKernel::sdpa_efficient:
      return "sdpa-efficient";
    case AttentionKernel::sdpa_math:
      return "sdpa-math";
    case AttentionKernel::sdpa_cudnn:
      return "sdpa-cudnn";
    case AttentionKernel::eager:
      return "eager";
    case AttentionKernel::unfused:
      return "unfused";
    case AttentionKernel::flash_2:
      return "flash-2";
    case AttentionKernel::te:
      return "te";
    case AttentionKernel::textbook:
      return "textbook";
  }
  return "";
}

std::string_view name_of(LossKernel kernel) {
  switch (kernel) {
    case LossKernel::upcast:
      return "upcast";
    case LossKernel::plain:
      return "plain";
    case LossKernel::chunked:
      return "chunked";
    case LossKernel::vocab_parallel:
      return "vocab-parallel";
    case LossKernel::te:
      return "te";
  }
  return "";
}

std::string_view name_of(CompileScope compile) {
  switch (compile) {
    case CompileScope::off:
      return "off";
    case CompileScope::blocks:
      return "blocks";
    case CompileScope::whole:
      return "whole";
  }
  return {};
}

std::string_view name_of(GraphScope scope) {
  switch (scope) {
    case GraphScope::attn:
      return "attn";
    case GraphScope::mlp:
      return "mlp";
    case GraphScope::moe_router:
      return "moe_router";
    case GraphScope::moe_preprocess:
      return "moe_preprocess";
    case GraphScope::moe:
      return "moe";
  }
  return {};
}

std::string_view own_type_of(std::string_view name, const Optimizer& optimizer) {
  if (!optimizer.typed) return {};
  for (const OptimizerState& state : optimizer.states) {
    if (state.name != name) continue;
    return state.shape == StateShape::remainders ? "remainders" : name_of(state.dtype.value());
  }
  return name_of(DType::fp32);  // main parameters that Megatron keeps
}

std::string_view name_of(TokenDispatcher dispatcher) {
  return dispatcher == TokenDispatcher::hybridep ? "hybridep" : "alltoall";
}

std::string_view name_of(TeRelease release) {
  switch (release) {
    case TeRelease::te_2_2:
      return "2.2";
    case TeRelease::te_2_9:
      return "2.9";
    case TeRelease::te_2_11:
      return "2.11";
  }
  return {};
}

std::string_view name_of(TransformersRelease release) {
  switch (release) {
    case TransformersRelease::v5_18:
      return "5.18";
    case TransformersRelease::v5_24:
      return "5.24";
  }
  return {};
}

std::string_view name_of(LayerSpec layers) {
  switch (layers) {
    case LayerSpec::local:
      return "local";
    case LayerSpec::te:
      return "te";
    case LayerSpec::legacy:
      return "legacy";
  }
  return "";
}

std::string_view name_of(NormKernel kernel) {
  switch (kernel) {
    case NormKernel::composite:
      return "composite";
    case NormKernel::fused:
      return "fused";
  }
  return "";
}

std::string_view name_of(Provenance provenance) {
  switch (provenance) {
    case Provenance::measured:
      return "measured";
    case Provenance::public_:
      return "public";
    case Provenance::datasheet:
      return "datasheet";
    case Provenance::computed:
      return "computed";
    case Provenance::disputed:
      return "disputed";
    case Provenance::estimated:
      return "estimated";
    case Provenance::unverified:
      return "unverified";
  }
  return "";
}

namespace {

std::string joined(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (const std::int64_t number : numbers) {
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  }
  return text;
}

/// Ascending numbers, those that follow one another as "2 to 4".
std::string ranges_of(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += (text.empty() ? "" : ", ") + std::to_string(numbers[i]);
    if (end - i > 1) text += (end - i > 2 ? " to " : ", ") + std::to_string(numbers[end - 1]);
    i = end;
  }
  return text;
}

/// `full` with what the spec says beside it.
std::string full_value(const FullRecompute& full) {
  std::string keys;
  const auto add = [&keys](const std::string& key) { keys += (keys.empty() ? "" : ", ") + key; };
  if (full.reentrant) add("reentrant: true");
  if (full.method == RecomputeMethod::block) add("method: block");
  if (full.layers != 1 || full.method == RecomputeMethod::block) {
    add("layers: " + std::to_string(full.layers));
  }
  if (full.distribute) add("distribute: true");
  return keys.empty() ? "full" : "{full: {" + keys + "}}";
}

std::string words_of(const SelectiveRecompute& parts) {
  std::string words;
  for (const SelectiveWord& word : kSelectiveWords) {
    if (parts.*word.part) words += (words.empty() ? "" : ", ") + std::string(word.word);
  }
  return words;
}

std::string selective_value(const SelectiveRecompute& parts) {
  return parts.beyond_attention() ? "{selective: [" + words_of(parts) + "]}" : "selective";
}

std::string selective_text(const SelectiveRecompute& parts) {
  return parts.beyond_attention() ? words_of(parts) : "selective";
}

}  // namespace

std::string text_of(const Recompute& recompute) {
  return std::visit(
      Overloaded{[](const NoRecompute&) { return std::string("none"); },
                 [](const FullRecompute& full) {
                   std::string text = "full";
                   if (full.method == RecomputeMethod::block) {
                     text += " in the first " + std::to_string(full.layers) + " layers";
                   }
                   return full.reentrant ? text + ", reentrant" : text;
                 },
                 [](const SelectiveRecompute& parts) { return selective_text(parts); },
                 [](const EveryRecompute& every) { return "every " + std::to_string(every.every); },
                 [](const SqrtRecompute&) { return std::string("sqrt"); },
                 [](const ChosenRecompute& chosen) {
                   return chosen.layers.empty() ? std::string("none")
                                                : "in the layers " + ranges_of(chosen.layers);
                 },
                 [](const BudgetRecompute& budget) {
                   return "within " + std::to_string(budget.budget.value()) + " B";
                 }},
      recompute);
}

std::string spec_value_of(const Recompute& recompute) {
  return std::visit(
      Overloaded{
          [](const FullRecompute& full) { return full_value(full); },
          [](const SelectiveRecompute& parts) { return selective_value(parts); },
          [](const EveryRecompute& every) {
            return "{every: " + std::to_string(every.every) + "}";
          },
          [](const ChosenRecompute& chosen) { return "{blocks: [" + joined(chosen.layers) + "]}"; },
          [](const BudgetRecompute& budget) {
            return "{budget: " + std::to_string(budget.budget.value()) + " B}";
          },
          [](const auto& word) { return text_of(word); }},
      recompute);
}

}  // namespace memest
