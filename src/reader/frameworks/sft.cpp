// TRL's SFTTrainer (trl 1.16): beside what no run of it was recorded.
#include <algorithm>
#include <array>
#include <string_view>
#include <variant>

#include "memest/spec/framework.hpp"
#include "reader/frameworks/rules.hpp"
#include "reader/frameworks/unrecorded.hpp"

namespace memest {
namespace {

constexpr std::array<std::string_view, 4> kRecordedPrecisions = {"amp-bf16", "bf16-autocast",
                                                                 "bf16", "fp32"};

constexpr NotRecorded kNotUnderSft[] = {
    {[](const Job& job) { return !job.training.has_value(); }, "without training", ""},
    {[](const Job& job) {
       return std::ranges::find(kRecordedPrecisions, job.training->recipe.name) ==
              kRecordedPrecisions.end();
     },
     "under this precision", "use amp-bf16, bf16-autocast, bf16 or fp32"},
    {[](const Job& job) {
       const Recompute& recompute = job.training->recompute;
       const auto* full = std::get_if<FullRecompute>(&recompute);
       return (full != nullptr && full->reentrant) ||
              (full == nullptr && !std::holds_alternative<NoRecompute>(recompute));
     },
     "beside other recompute than of whole layers", "use 'recompute: full' or none"},
    {[](const Job& job) { return job.training->teacher != nullptr; }, "beside a teacher", ""},
    {[](const Job& job) { return job.model.vision.has_value(); }, "with images", ""},
    {[](const Job& job) { return job.model.experts() != nullptr; }, "in a mixture of experts", ""},
    {[](const Job& job) { return job.model.low_rank || job.model.shared_layers; },
     "beside a compressed model", "leave 'compression' out"},
    {[](const Job& job) { return job.model.adapter && !job.model.adapter->whole_modules.empty(); },
     "beside modules trained in full", "leave 'modules_to_save' out"},
};

}  // namespace

void check_sft(const Value& root, const Job& job, Diagnostics& diagnostics) {
  const ForwardSpec* forward = job.forward();
  if (forward == nullptr || !row_of(forward->implementation.loop).takes_tiles) return;
  const Value& section = *root.find(job.training ? "training" : "inference");
  constexpr Beside kRecorded[] = {Beside::other_program, Beside::other_loop};
  refuse_unrecorded({.noun = "SFTTrainer",
                     .key = "loop",
                     .written = *section.find("implementation")->find("loop"),
                     .recorded = kRecorded},
                    kNotUnderSft, job, diagnostics);
}

}  // namespace memest
