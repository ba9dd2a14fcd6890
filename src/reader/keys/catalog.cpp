// The keys of the files in configs/gpus, configs/recipes, configs/optimizers and configs/prices.
#include "reader/keys/keys.hpp"

namespace memest {
namespace {

constexpr Word kTags[] = {{"datasheet"}, {"computed"},  {"disputed"}, {"unverified"},
                          {"measured"},  {"estimated"}, {"public"}};
constexpr Key kTag = {
    .name = "tag", .shapes = {choice(kTags)}, .doc = "How the value is known.", .required = true};
constexpr Key kSource = {
    .name = "source", .shapes = {text()}, .doc = "Where it was read.", .required = true};
constexpr Key kNote = {.name = "note", .shapes = {text()}, .doc = "What to know about it."};

constexpr Key fact_value(KeyShape shape) {
  return {.name = "value", .shapes = {shape}, .doc = "The value.", .required = true};
}
constexpr Key kCountFact[] = {fact_value(count()), kTag, kSource, kNote};
constexpr Key kSizeFact[] = {
    fact_value(quantity(Dimension::size)),
    kTag,
    kSource,
    kNote,
    {.name = "low", .shapes = {quantity(Dimension::size)}, .doc = "Lower end."},
    {.name = "high", .shapes = {quantity(Dimension::size)}, .doc = "Upper end."}};
constexpr Key kFlopRateFact[] = {fact_value(quantity(Dimension::flop_rate)), kTag, kSource, kNote};
constexpr Key kByteRateFact[] = {fact_value(quantity(Dimension::byte_rate)), kTag, kSource, kNote};
constexpr Key kClockFact[] = {fact_value(quantity(Dimension::clock)), kTag, kSource, kNote};
constexpr Key kPowerFact[] = {fact_value(quantity(Dimension::power)), kTag, kSource, kNote};

constexpr Key kFactKeys[] = {
    {.name = "sms", .shapes = {table(kCountFact)}, .doc = "Multiprocessors."},
    {.name = "boost_clock", .shapes = {table(kClockFact)}, .doc = "Boost clock."},
    {.name = "memory", .shapes = {table(kSizeFact)}, .doc = "The size on the card's label."},
    {.name = "capacity",
     .shapes = {table(kSizeFact)},
     .doc = "The size that the driver reports.",
     .required = true},
    {.name = "memory_bandwidth", .shapes = {table(kByteRateFact)}, .doc = "Of the device memory."},
    {.name = "l2", .shapes = {table(kSizeFact)}, .doc = "L2 cache."},
    {.name = "fp32", .shapes = {table(kFlopRateFact)}, .doc = "Dense peak."},
    {.name = "tf32", .shapes = {table(kFlopRateFact)}, .doc = "Dense peak."},
    {.name = "bf16", .shapes = {table(kFlopRateFact)}, .doc = "Dense peak."},
    {.name = "fp16", .shapes = {table(kFlopRateFact)}, .doc = "Dense peak."},
    {.name = "fp8", .shapes = {table(kFlopRateFact)}, .doc = "Dense peak."},
    {.name = "int8", .shapes = {table(kFlopRateFact)}, .doc = "Dense peak."},
    {.name = "fp4", .shapes = {table(kFlopRateFact)}, .doc = "Dense peak."},
    {.name = "link_bandwidth",
     .shapes = {table(kByteRateFact)},
     .doc = "To its peers, both directions together."},
    {.name = "link_domain",
     .shapes = {table(kCountFact)},
     .doc = "GPUs that the link joins, where those are of several nodes."},
    {.name = "host_link",
     .shapes = {table(kByteRateFact)},
     .doc = "To its host's memory where that is not PCI Express, both directions together."},
    {.name = "pcie_generation", .shapes = {table(kCountFact)}, .doc = "PCI Express."},
    {.name = "power", .shapes = {table(kPowerFact)}, .doc = "Board power."},
    {.name = "context",
     .shapes = {table(kSizeFact)},
     .doc = "CUDA context and modules, outside PyTorch's allocator."},
    {.name = "host_memory",
     .shapes = {table(kSizeFact)},
     .doc = "What a node that is rented with it has of the host's memory, a GPU."},
};

constexpr Shapes kText = {text()};
constexpr Key kGpuKeys[] = {
    {.name = "slug", .shapes = {text()}, .doc = "Name in a spec.", .required = true},
    {.name = "name", .shapes = {text()}, .doc = "Name for people.", .required = true},
    {.name = "vendor", .shapes = {text()}, .doc = "Who makes it.", .required = true},
    {.name = "architecture", .shapes = {text()}, .doc = "Its generation.", .required = true},
    {.name = "compute_capability", .shapes = {target()}, .doc = R"("9.0", or "gfx942".)"},
    {.name = "aliases", .shapes = {list(kText)}, .doc = "Other names in a spec."},
    {.name = "facts", .shapes = {table(kFactKeys)}, .doc = "Values.", .required = true},
    {.name = "sources", .shapes = {document()}, .doc = "What the sources' letters mean."},
};

constexpr Word kTypes[] = {{"fp32"},  {"bf16"},  {"fp16"}, {"fp8"},   {"fp64"},
                           {"int64"}, {"int32"}, {"int8"}, {"uint8"}, {"bool"}};
constexpr Key type_key(std::string_view name, std::string_view doc, bool required) {
  return {.name = name, .shapes = {choice(kTypes)}, .doc = doc, .required = required};
}
constexpr Key flag_key(std::string_view name, std::string_view doc) {
  return {.name = name, .shapes = {flag()}, .fallback = "false", .doc = doc};
}
constexpr Key kName = {
    .name = "name", .shapes = {text()}, .doc = "Name in a spec.", .required = true};
constexpr Key kDescription = {
    .name = "description", .shapes = {text()}, .doc = "One sentence.", .required = true};

constexpr Word kTeRecipeWords[] = {
    {"delayed"}, {"tensorwise"}, {"blockwise"}, {"mxfp8"}, {"nvfp4"}};
constexpr Key kRecipeKeys[] = {
    kName,
    kDescription,
    kSource,
    type_key("weights", "The model's own parameters.", true),
    type_key("gradients", "What the backward pass leaves.", true),
    type_key("master", "The optimizer's copy of the parameters.", false),
    type_key("states", "The optimizer's states.", true),
    type_key("compute", "Matmuls and activations.", true),
    flag_key("autocast", "torch.autocast over the model."),
    flag_key("gathered_units", "Shards are gathered unit by unit in the compute type."),
    type_key("reduce", "Gradients while they are reduced.", false),
    type_key("step_gradients", "A copy of the gradients for the step.", false),
    {.name = "fp8_weight_copies",
     .shapes = {count(0, 2)},
     .fallback = "0",
     .doc = "fp8 copies of matmul weights."},
    {.name = "te_recipe",
     .shapes = {choice(kTeRecipeWords)},
     .doc = "Recipe of Transformer Engine's layers in Megatron, by Megatron's word."},
};

// AdamW's exp_avg; Adafactor's row_var and col_var; bitsandbytes' state1, a byte an element and an
// fp32 absmax for 256; Shampoo's [m, m] and [n, n]; the step of a fused optimizer.
constexpr Word kStateShapes[] = {
    {"like-parameter"}, {"rows-and-columns"}, {"blockwise-8bit"}, {"square-factors"}, {"scalar"}};
constexpr Key kStateKeys[] = {
    {.name = "name", .shapes = {text()}, .doc = "PyTorch's name.", .required = true},
    {.name = "shape", .shapes = {choice(kStateShapes)}, .doc = "Its shape.", .required = true},
    type_key("dtype", "Its type; the recipe's where left out.", false),
    flag_key("on_host", "Tensors of 100,000 elements and more are in managed memory (paged)."),
    flag_key("matrices_only", "Parameters of two and more dimensions have it."),
    flag_key("vectors_only", "Parameters of one dimension have it."),
    {.name = "largest_factor",
     .shapes = {count(0, 1000000000)},
     .fallback = "0",
     .doc = "Dimensions above it keep no square factor; 0 for no limit."},
};
constexpr Shapes kStates = {table(kStateKeys)};
constexpr Word kImplementationNames[] = {{"foreach"}, {"fused"}, {"for-loop"}};
constexpr Key kStepKeys[] = {
    {.name = "name",
     .shapes = {choice(kImplementationNames)},
     .doc = "PyTorch's word.",
     .required = true},
    {.name = "whole_copies",
     .shapes = {count(0, 100)},
     .fallback = "0",
     .doc = "Copies of all parameters at once."},
    {.name = "largest_copies",
     .shapes = {count(0, 100)},
     .fallback = "0",
     .doc = "Copies of the largest tensor."},
    flag_key("running_pair", "Two copies of a tensor beside one of the one before."),
    type_key("dtype", "Type of the copies.", false),
    {.name = "states", .shapes = {list(kStates)}, .doc = "States of this implementation alone."},
};
constexpr Shapes kSteps = {table(kStepKeys)};
constexpr Key kOptimizerFileKeys[] = {
    kName,
    kDescription,
    kSource,
    {.name = "states",
     .shapes = {list(kStates)},
     .doc = "What it keeps for a parameter.",
     .required = true},
    flag_key("states_in_constructor", "They are made before the first step, not in it."),
    {.name = "implementations",
     .shapes = {list(kSteps)},
     .doc = "What a step allocates; the first is the default.",
     .required = true},
};

constexpr Key kPriceKeys[] = {
    {.name = "gpu", .shapes = {text()}, .doc = "Slug.", .required = true},
    {.name = "price", .shapes = {quantity(Dimension::price)}, .doc = "One GPU.", .required = true},
    {.name = "provider", .shapes = {text()}, .doc = "Who rents it out.", .required = true},
    kSource,
    {.name = "date", .shapes = {text()}, .doc = "Day of the price.", .required = true},
    kTag,
    flag_key("default", "An estimate uses this row."),
    kNote,
};
constexpr Shapes kPrices = {table(kPriceKeys)};
constexpr Key kPriceFileKeys[] = {
    {.name = "prices", .shapes = {list(kPrices)}, .doc = "One row a price.", .required = true},
};

constexpr Key kCeilingKeys[] = {
    {.name = "gpu", .shapes = {text()}, .doc = "Slug.", .required = true},
    {.name = "kernel", .shapes = {text()}, .doc = "Kernel and pass or type.", .required = true},
    {.name = "rate",
     .shapes = {quantity(Dimension::flop_rate), quantity(Dimension::byte_rate)},
     .doc = "The best one.",
     .required = true},
    {.name = "conditions", .shapes = {text()}, .doc = "How it was measured.", .required = true},
    kSource,
    {.name = "license", .shapes = {text()}, .doc = "Of the source's figures.", .required = true},
};
constexpr Shapes kCeilingShapes = {table(kCeilingKeys)};
constexpr Key kCeilingFileKeys[] = {
    {.name = "ceilings",
     .shapes = {list(kCeilingShapes)},
     .doc = "One row a kernel.",
     .required = true},
};

constexpr Word kImplementationWords[] = {{"transformers"}, {"torchtitan"}, {"torchtune"},
                                         {"litgpt"},       {"megatron"},   {"nanotron"},
                                         {"nanogpt"},      {"textbook"},   {"plain"}};
constexpr Word kMethodWords[] = {{"closed-form"}, {"replay"}};
constexpr Word kLayerWords[] = {{"te"}};
constexpr Word kGpuCounts[] = {{"one"}, {"several"}, {"offloading"}};
constexpr Key kResidualKeys[] = {
    {.name = "method",
     .shapes = {choice(kMethodWords)},
     .doc = "What was held to the runs.",
     .required = true},
    {.name = "implementation",
     .shapes = {choice(kImplementationWords)},
     .doc = "Whose runs; all where left out."},
    {.name = "layers",
     .shapes = {choice(kLayerWords)},
     .doc = "Of Megatron's runs those with layers of Transformer Engine; the others where left "
            "out."},
    {.name = "gpus",
     .shapes = {choice(kGpuCounts)},
     .doc = "Whether the runs are of one GPU or one rank of several, or keep a part on the host.",
     .required = true},
    flag_key("recomputes", "Whether the runs recompute."),
    {.name = "compiled",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "Whether torch.compile compiles the runs' layers, or a CUDA graph captures them."},
    {.name = "mixture",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "Whether the runs are of mixtures of experts, where an implementation has enough of "
            "them; else they are among the others."},
    {.name = "records", .shapes = {count()}, .doc = "Runs behind the row.", .required = true},
    {.name = "low",
     .shapes = {quantity(Dimension::share)},
     .doc = "Allocated may be so far below the estimate.",
     .required = true},
    {.name = "high",
     .shapes = {quantity(Dimension::share)},
     .doc = "Reserved may be so far above the estimate.",
     .required = true},
};
constexpr Shapes kResiduals = {table(kResidualKeys)};
constexpr Word kToldWords[] = {{"step"}, {"reserved"}, {"device"}};
constexpr Key kSourceKeys[] = {
    {.name = "of", .shapes = {choice(kToldWords)}, .doc = "What is told.", .required = true},
    {.name = "runs", .shapes = {count()}, .doc = "Runs behind the row.", .required = true},
    {.name = "publications", .shapes = {count()}, .doc = "That they are from.", .required = true},
    {.name = "held",
     .shapes = {quantity(Dimension::share)},
     .doc = "Of the runs of sources that were left out, of the kind of source that holds fewest.",
     .required = true},
    {.name = "low",
     .shapes = {quantity(Dimension::share)},
     .doc = "A run may be so far below what is expected.",
     .required = true},
    {.name = "high",
     .shapes = {quantity(Dimension::share)},
     .doc = "A run may be so far above it.",
     .required = true},
};
constexpr Shapes kSources = {table(kSourceKeys)};
constexpr Key kOrderKeys[] = {
    {.name = "cells", .shapes = {count()}, .doc = "Of one model, GPU and count.", .required = true},
    {.name = "layouts", .shapes = {count()}, .doc = "Of all cells.", .required = true},
    {.name = "median_lost",
     .shapes = {quantity(Dimension::share)},
     .doc = "Of the best measured pace, by the layout that was predicted fastest.",
     .required = true},
    {.name = "most_lost",
     .shapes = {quantity(Dimension::share)},
     .doc = "The same, of the cell that lost most.",
     .required = true},
};
constexpr Key kResidualFileKeys[] = {
    {.name = "residuals", .shapes = {list(kResiduals)}, .doc = "One row a kind.", .required = true},
    {.name = "published", .shapes = {list(kSources)}, .doc = "One row a figure.", .required = true},
    {.name = "order",
     .shapes = {table(kOrderKeys)},
     .doc = "How well layouts are ranked.",
     .required = true},
};

constexpr Key kNeedKeys[] = {
    {.name = "preset", .shapes = {catalog("models")}, .doc = "Whose need.", .required = true},
    {.name = "gpus", .shapes = {count(1, kMaxRanks)}, .doc = "How many GPUs.", .required = true},
    {.name = "flags", .shapes = {text()}, .doc = "What else to say.", .required = true},
};
constexpr Shapes kNeeds = {table(kNeedKeys)};
constexpr Key kNeedFileKeys[] = {
    {.name = "needs", .shapes = {list(kNeeds)}, .doc = "One row a preset.", .required = true},
};

}  // namespace

std::span<const Key> gpu_file_keys() { return kGpuKeys; }
std::span<const Key> recipe_file_keys() { return kRecipeKeys; }
std::span<const Key> optimizer_file_keys() { return kOptimizerFileKeys; }
std::span<const Key> price_file_keys() { return kPriceFileKeys; }
std::span<const Key> ceiling_file_keys() { return kCeilingFileKeys; }
std::span<const Key> residual_file_keys() { return kResidualFileKeys; }
std::span<const Key> need_file_keys() { return kNeedFileKeys; }

}  // namespace memest
