// Layers of multi-token prediction (`model.mtp_num_layers`), which Megatron-core alone trains.
#include <algorithm>
#include <array>
#include <variant>

#include "memest/spec/framework.hpp"
#include "reader/frameworks/megatron.hpp"
#include "reader/frameworks/rules.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

const DecoderSpec& predictor_of(const Job& job) {
  return std::get<DecoderSpec>(job.model.architecture);
}
const Implementation& implementation_of(const Job& job) { return job.training->implementation; }

/// Jobs that have such layers, and that Megatron-core 0.16.1 (or memest with it) refuses.
constexpr std::array kPredictionRules = {
    Rule{"model", "mtp_num_layers",
         [](const Job& job) {
           return implementation_of(job).layers == LayerSpec::legacy ||
                  !std::holds_alternative<RotaryPosition>(predictor_of(job).position);
         },
         "multi-token prediction is that of layers with rotary positions, not of legacy ones",
         "leave 'mtp_num_layers' out, or set 'position' to rope"},
    Rule{"model", "mtp_num_layers", [](const Job& job) { return job.model.adapter.has_value(); },
         "multi-token prediction beside an adapter is not available yet",
         "leave one of the two out"},
    Rule{"model", "mtp_num_layers",
         [](const Job& job) {
           return std::ranges::any_of(predictor_of(job).kinds, [](const LayerKind& kind) {
             return kind.sliding_window.has_value();
           });
         },
         "multi-token prediction beside attention over windows is not available yet",
         "leave one of the two out"},
    // GPTModel makes an output layer there that nothing reads (skip_weight_param_allocation asks
    // for pre_process).
    Rule{"model", "mtp_num_layers",
         [](const Job& job) {
           return predictor_of(job).tied_embeddings && job.parallelism.pipeline > 1;
         },
         "multi-token prediction with a tied head over pipeline stages is not available yet",
         "set 'tied_embeddings' to false, or leave 'pipeline' out"},
    // MultiTokenPredictionLayer._checkpointed_forward: "recompute_num_layers must be 1".
    Rule{"model", "mtp_num_layers",
         [](const Job& job) {
           const auto* full = std::get_if<FullRecompute>(&job.training->recompute);
           return full != nullptr && full->method == RecomputeMethod::uniform && full->layers != 1;
         },
         "Megatron recomputes layers of multi-token prediction one by one",
         "set 'layers' of 'recompute' to 1"},
    Rule{"model", "mtp_num_layers",
         [](const Job& job) {
           const auto* full = std::get_if<FullRecompute>(&job.training->recompute);
           return full != nullptr && full->distribute;
         },
         "multi-token prediction beside inputs that ranks have in shares is not available yet",
         "leave 'distribute' out"},
    Rule{"model", "mtp_num_layers",
         [](const Job& job) {
           return job.parallelism.zero == ZeroStage::optimizer_gradients_weights;
         },
         "multi-token prediction under Megatron-FSDP is not available yet",
         "use 'distributed_optimizer: true'"},
};

}  // namespace

void check_predictions(const Value& root, const Job& job, Diagnostics& diagnostics) {
  if (mtp_layers_of(job) == 0) return;
  const bool by_megatron = job.training && implementation_of(job).framework == Framework::megatron;
  if (by_megatron) return check_rules(kPredictionRules, root, job, diagnostics);
  const std::string where =
      job.training ? "in the implementation " + quote(name_of(implementation_of(job).framework))
                   : "without training";
  diagnostics.push_back(unavailable_at(root.find("model")->find("mtp_num_layers")->span,
                                       "multi-token prediction " + where,
                                       "it is that of the implementation megatron"));
}

}  // namespace memest
