// The keys of a profile: what was measured of a GPU type.
#include <array>
#include <cstddef>

#include "memest/spec/gpu/law_parameters.hpp"
#include "reader/keys/keys.hpp"

namespace memest {
namespace {

constexpr KeyShape shape_of(ParameterUnit unit, double high) {
  switch (unit) {
    case ParameterUnit::none:
      return number(0, high);
    case ParameterUnit::seconds:
      return quantity(Dimension::duration);
    case ParameterUnit::bytes:
      return quantity(Dimension::size);
    case ParameterUnit::bytes_per_second:
      return quantity(Dimension::byte_rate);
  }
  return number(0, high);
}

/// Parameters of a law as keys; all of them stand there.
template <class Law, std::size_t kCount>
constexpr std::array<Key, kCount> keys_of(const std::array<LawParameter<Law>, kCount>& parameters) {
  std::array<Key, kCount> keys{};
  for (std::size_t i = 0; i < kCount; ++i) {
    keys[i].name = parameters[i].name;
    keys[i].shapes = {shape_of(parameters[i].unit, parameters[i].high)};
    keys[i].doc = "Parameter of the law (docs/calibration.md).";
    keys[i].required = true;
  }
  return keys;
}

constexpr auto kTileKeys = keys_of(kTileParameters);
constexpr auto kPassKeys = keys_of(kPassParameters);
constexpr auto kAttentionLawKeys = keys_of(kAttentionParameters);
constexpr auto kStreamLawKeys = keys_of(kStreamParameters);
constexpr auto kCollectiveLawKeys = keys_of(kCollectiveParameters);
constexpr auto kTransferLawKeys = keys_of(kTransferParameters);
constexpr auto kLaunchLawKeys = keys_of(kLaunchParameters);

/// Largest residual, as a factor: a law that is farther off says nothing.
constexpr double kMostOff = 1e6;
constexpr Key kLawResidualKeys[] = {
    {.name = "fitted", .shapes = {count(0)}, .doc = "Samples that the law was fitted to."},
    {.name = "tested", .shapes = {count(0)}, .doc = "Samples that it was then held to."},
    {.name = "mean_absolute",
     .shapes = {number(-kMostOff, kMostOff)},
     .doc = "Of predicted over measured, less one.",
     .required = true},
    {.name = "bias",
     .shapes = {number(-kMostOff, kMostOff)},
     .doc = "Of the summed time.",
     .required = true},
    {.name = "low",
     .shapes = {number(-kMostOff, kMostOff)},
     .doc = "10th percentile of measured over predicted, less one.",
     .required = true},
    {.name = "high",
     .shapes = {number(-kMostOff, kMostOff)},
     .doc = "90th percentile of the same.",
     .required = true},
    {.name = "shortest",
     .shapes = {quantity(Dimension::duration)},
     .doc = "Of the samples that the law was fitted to."},
    {.name = "longest",
     .shapes = {quantity(Dimension::duration)},
     .doc = "Of the same; intervals widen beyond."},
};

constexpr Word kProfileTags[] = {{"measured"}, {"public"}, {"datasheet"}};
constexpr Word kOperands[] = {{"fp32"}, {"tf32"},         {"fp16"},       {"bf16"},
                              {"fp8"},  {"fp8_block128"}, {"fp8_static"}, {"nvfp4"}};
constexpr Word kProfileTypes[] = {{"fp32"}, {"fp16"}, {"bf16"}, {"fp8"}};
constexpr Word kPasses[] = {{"forward"}, {"backward"}};
constexpr Word kStreamOps[] = {
    {"read"},       {"write"},   {"copy"},          {"scale"},     {"add"},     {"triad"},
    {"by-element"}, {"cast"},    {"gelu"},          {"silu-mul"},  {"dropout"}, {"softmax"},
    {"layernorm"},  {"rmsnorm"}, {"cross-entropy"}, {"embedding"}, {"rotary"},  {"adamw"}};
constexpr Word kCollectives[] = {
    {"all_reduce"}, {"all_gather"}, {"reduce_scatter"}, {"all_to_all"}};
constexpr Word kTransfers[] = {{"host-to-device-pinned"},
                               {"device-to-host-pinned"},
                               {"host-to-device-pageable"},
                               {"device-to-host-pageable"},
                               {"managed-migration"}};
constexpr Word kLaunches[] = {{"stream"}, {"graph"}};
constexpr Word kLoads[] = {{"burst"}, {"sustained"}};

constexpr Key choice_key(std::string_view name, std::span<const Word> words, std::string_view doc) {
  return {.name = name, .shapes = {choice(words)}, .doc = doc, .required = true};
}
constexpr Key law_key(std::span<const Key> keys) {
  return {.name = "law", .shapes = {table(keys)}, .doc = "Its parameters.", .required = true};
}
constexpr Key kProvenance = choice_key("provenance", kProfileTags, "Who measured.");
constexpr Key kLawResiduals = {.name = "residuals",
                               .shapes = {table(kLawResidualKeys)},
                               .doc = "How well the law holds.",
                               .required = true};

constexpr Key kMatmulKeys[] = {
    choice_key("operand", kOperands, "Element type of both operands, and their scaling."),
    {.name = "cast_included",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "The samples hold the cast of the left operand."},
    kProvenance,
    law_key(kTileKeys),
    {.name = "passes", .shapes = {table(kPassKeys)}, .doc = "Times of gradients over forward."},
    {.name = "cast", .shapes = {table(kStreamLawKeys)}, .doc = "Of the left operand."},
    kLawResiduals};
constexpr Key kAttentionKeys[] = {
    {.name = "kernel", .shapes = {text()}, .doc = "Its name in the samples."},
    choice_key("dtype", kProfileTypes, "Element type."),
    choice_key("pass", kPasses, "Which pass."),
    {.name = "causal", .shapes = {flag()}, .doc = "Half of the scores.", .required = true},
    kProvenance,
    law_key(kAttentionLawKeys),
    kLawResiduals};
constexpr Key kStreamKeys[] = {choice_key("op", kStreamOps, "Which kernel."),
                               choice_key("pass", kPasses, "Which pass."),
                               choice_key("dtype", kProfileTypes, "Element type."),
                               kProvenance,
                               law_key(kStreamLawKeys),
                               kLawResiduals};
constexpr Key kCollectiveKeys[] = {
    choice_key("op", kCollectives, "Which collective."),
    {.name = "gpus", .shapes = {count(2)}, .doc = "Over how many GPUs.", .required = true},
    kProvenance,
    law_key(kCollectiveLawKeys),
    kLawResiduals};
constexpr Key kTransferKeys[] = {choice_key("path", kTransfers, "From where to where."),
                                 kProvenance, law_key(kTransferLawKeys), kLawResiduals};
constexpr Key kLaunchKeys[] = {choice_key("path", kLaunches, "How it is launched."), kProvenance,
                               law_key(kLaunchLawKeys), kLawResiduals};

constexpr Shapes kProfileText = {text()};
constexpr Shapes kLine = {count()};
constexpr Key kOriginKeys[] = {
    {.name = "date", .shapes = {text()}, .doc = "When it was measured or fitted."},
    {.name = "device", .shapes = {text()}, .doc = "As the driver names it."},
    {.name = "driver", .shapes = {text()}, .doc = "Its version."},
    {.name = "libraries",
     .shapes = {list(kProfileText)},
     .doc = "CUDA, cuBLAS, ... with versions."},
    {.name = "burst_clock", .shapes = {quantity(Dimension::clock)}, .doc = "Mean, after a rest."},
    {.name = "sustained_clock", .shapes = {quantity(Dimension::clock)}, .doc = "Mean, under load."},
    {.name = "sources", .shapes = {list(kProfileText)}, .doc = "Of samples from elsewhere."}};
constexpr Key kMachineKeys[] = {
    {.name = "multiprocessors", .shapes = {count()}, .doc = "How many.", .required = true},
    {.name = "memory",
     .shapes = {quantity(Dimension::size)},
     .doc = "That it has.",
     .required = true},
    {.name = "l2", .shapes = {quantity(Dimension::size)}, .doc = "Its cache.", .required = true},
    {.name = "memory_bandwidth",
     .shapes = {quantity(Dimension::byte_rate)},
     .doc = "The best that was measured.",
     .required = true},
    {.name = "fp32",
     .shapes = {quantity(Dimension::flop_rate)},
     .doc = "The best rate of a matrix product.",
     .required = true}};
constexpr Key kFittedKeys[] = {
    {.name = "file", .shapes = {text()}, .doc = "A file of samples.", .required = true},
    {.name = "lines", .shapes = {list(kLine)}, .doc = "Lines of it.", .required = true}};

constexpr Shapes kMatmul = {table(kMatmulKeys)};
constexpr Shapes kAttentionLaw = {table(kAttentionKeys)};
constexpr Shapes kStream = {table(kStreamKeys)};
constexpr Shapes kCollective = {table(kCollectiveKeys)};
constexpr Shapes kTransfer = {table(kTransferKeys)};
constexpr Shapes kLaunch = {table(kLaunchKeys)};
constexpr Shapes kFitted = {table(kFittedKeys)};

constexpr Key kProfileKeys[] = {
    {.name = "format_version",
     .shapes = {count(kProfileFormat, kProfileFormat)},
     .doc = "Of this file's form.",
     .required = true},
    {.name = "gpu", .shapes = {text()}, .doc = "Whose profile it is.", .required = true},
    choice_key("load", kLoads, "Under which the samples were taken."),
    {.name = "origin", .shapes = {table(kOriginKeys)}, .doc = "Where and when."},
    {.name = "machine",
     .shapes = {table(kMachineKeys)},
     .doc = "What shares are of, where no catalog has the GPU: the host."},
    {.name = "matmuls", .shapes = {list(kMatmul)}, .doc = "Matrix products."},
    {.name = "attentions", .shapes = {list(kAttentionLaw)}, .doc = "Fused attention."},
    {.name = "streams", .shapes = {list(kStream)}, .doc = "Kernels bound by memory."},
    {.name = "collectives", .shapes = {list(kCollective)}, .doc = "Between GPUs of a node."},
    {.name = "transfers", .shapes = {list(kTransfer)}, .doc = "Between host and device."},
    {.name = "launches", .shapes = {list(kLaunch)}, .doc = "Empty kernels."},
    {.name = "fitted", .shapes = {list(kFitted)}, .doc = "Samples that the laws come from."},
};

}  // namespace

std::span<const Key> profile_keys() { return kProfileKeys; }

}  // namespace memest
