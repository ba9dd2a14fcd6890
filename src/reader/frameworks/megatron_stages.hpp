// How Megatron-core divides layers over a pipeline's stages, and what it refuses of that; and how
// DeepSpeed does around its layers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "memest/spec/job.hpp"
#include "reader/frameworks/rules.hpp"

namespace memest {

/// Whether layers, with the ends that count as one, do not divide over the stages.
bool leaves_layers_over(const Job& job);

/// Whether the layers that the first and last stage leave do not divide evenly over the others.
bool leaves_uneven_middle(const Job& job);

/// Layers of each of so many stages, where every layer weighs 1: a search for the least bottleneck,
/// then stage after stage as many as lie below it (deepspeed/runtime/utils.py, partition_balanced,
/// DeepSpeed 0.6.7).
std::vector<std::int64_t> balanced_stages(std::int64_t layers, std::int64_t stages);

/// Lists the stages that DeepSpeed makes of the model around which it runs, where the spec says
/// nothing of them and the layers do not divide.
void divide_by_deepspeed(Job& job);

/// Layers of each of so many stages as Megatron-Bridge's recipes deal those that do not divide:
/// embedding and loss count as a layer each where that makes them even (Llama-3.1 405B: 126 on 128
/// stages, Qwen3 235B: 94 on 24), else every stage has as many and the last, then the first, lacks
/// what is missing (DeepSeek-V3, 61: 4 ... 4, 1 on 16; 1, 2 ... 2, 0 on 32). Empty: these two
/// cannot lack so many. (megatron/bridge/recipes: llama3.py, qwen3_moe.py, deepseek_v3.py,
/// moonlight.py.)
std::vector<std::int64_t> stages_with_short_ends(std::int64_t layers, std::int64_t stages);

/// Lists such stages, with a warning, where Megatron-core runs the layers, the spec says nothing of
/// stages and the layers do not divide. `written` is its section `parallelism`.
void divide_by_recipes(const Value& written, Job& job, Diagnostics& diagnostics);

std::span<const Rule> megatron_stage_rules();

}  // namespace memest
