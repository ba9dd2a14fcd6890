// How Megatron-core divides layers over a pipeline's stages, and what it refuses of that.
#pragma once

#include <span>

#include "memest/spec/job.hpp"
#include "reader/frameworks/rules.hpp"

namespace memest {

/// Whether layers, with the ends that count as one, do not divide over the stages.
bool leaves_layers_over(const Job& job);

/// Whether the layers that the first and last stage leave do not divide evenly over the others.
bool leaves_uneven_middle(const Job& job);

std::span<const Rule> megatron_stage_rules();

}  // namespace memest
