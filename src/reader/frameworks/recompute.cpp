#include "reader/frameworks/recompute.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>

#include "memest/spec/framework.hpp"
#include "memest/spec/layer_blocks.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

class RecomputeCheck {
 public:
  RecomputeCheck(const Value& written, const Job& job, Diagnostics& diagnostics)
      : written_(written),
        job_(job),
        framework_(row_of(job.training->implementation.framework)),
        diagnostics_(diagnostics) {}

  void check() {
    const Recompute& recompute = job_.training->recompute;
    if (std::holds_alternative<ChosenRecompute>(recompute)) check_chosen();
    const bool for_budget = std::holds_alternative<BudgetRecompute>(recompute);
    if (for_budget && framework_.checkpoints == CheckpointRule::formula) {
      diagnostics_.push_back(error_at(written_.span, name() + " runs no program that recomputes",
                                      "choose another 'implementation'"));
    }
    if (leaves_layers_out(recompute) && job_.training->use_cache) {
      // modeling_layers.py, GradientCheckpointingLayer.__call__ takes the cache away from the
      // layers whose flag is set.
      diagnostics_.push_back(unavailable_at(written_.span,
                                            "a key-value cache beside recompute of some layers",
                                            "leave 'use_cache' out"));
    }
  }

 private:
  static bool leaves_layers_out(const Recompute& recompute) {
    const auto* full = std::get_if<FullRecompute>(&recompute);
    return std::holds_alternative<ChosenRecompute>(recompute) ||
           std::holds_alternative<BudgetRecompute>(recompute) ||
           (full != nullptr && full->method == RecomputeMethod::block);
  }

  [[nodiscard]] std::string name() const {
    return "the implementation " + quote(std::string(framework_.name));
  }

  void check_chosen() {
    if (framework_.checkpoints != CheckpointRule::torch) {
      diagnostics_.push_back(
          error_at(written_.span, name() + " has no option that names the layers to recompute",
                   "'blocks' is for code that calls torch.utils.checkpoint: transformers, nanogpt, "
                   "plain"));
      return;
    }
    const Value* blocks = written_.find("blocks");
    const std::optional<std::int64_t> layers = checkpointable_layers(job_.model);
    std::set<std::int64_t> seen;
    for (const Value& item : blocks->items) {
      const std::int64_t layer = as_count(&item).value_or(0);
      if (layers && layer >= *layers) {
        diagnostics_.push_back(
            error_at(item.span, "the model has no layer " + item.text + " that can be recomputed",
                     *layers == 0 ? "leave 'recompute' out"
                                  : "its layers count from 0 to " + std::to_string(*layers - 1)));
      }
      if (!seen.insert(layer).second) {
        diagnostics_.push_back(
            error_at(item.span, "layer " + item.text + " is named twice", "name it once"));
      }
    }
  }

  const Value& written_;
  const Job& job_;
  const FrameworkRow& framework_;
  Diagnostics& diagnostics_;
};

}  // namespace

void check_recompute(const Value& root, const Job& job, Diagnostics& diagnostics) {
  if (!job.training) return;
  const Value* written = root.find("training")->find("recompute");
  if (written != nullptr) RecomputeCheck(*written, job, diagnostics).check();
}

}  // namespace memest
