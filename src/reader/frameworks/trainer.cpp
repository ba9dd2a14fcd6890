
#include <array>

#include "memest/spec/framework.hpp"
#include "reader/frameworks/rules.hpp"

namespace memest {
namespace {

// transformers 5.17, trainer.py: Trainer.compute_loss drops the outputs, _run_epoch calls
// model.zero_grad() with its default, and __init__ sets config.use_cache to TrainingArguments',
// which is False.
constexpr std::array kTrainerRules = {
    Rule{"training", "hold_outputs", [](const Job& job) { return job.training->hold_outputs; },
         "the Trainer drops the model's outputs after the loss",
         "leave 'hold_outputs' out, or set 'loop' to plain"},
    Rule{"training", "zero_grad",
         [](const Job& job) { return job.training->zero_grad == ZeroGrad::zeros; },
         "the Trainer frees the gradients after a step",
         "leave 'zero_grad' out, or set 'loop' to plain"},
    Rule{"training", "use_cache", [](const Job& job) { return job.training->use_cache; },
         "the Trainer switches the model's cache off",
         "leave 'use_cache' out, or set 'loop' to plain"},
    Rule{"training", "loss",
         [](const Job& job) { return job.training->loss == TrainingLoss::sum_of_logits; },
         "the Trainer takes the model's own loss", "leave 'loss' out, or set 'loop' to plain"},
};

}  // namespace

void check_trainer(const Value& root, const Job& job, Diagnostics& diagnostics) {
  if (!job.training || !row_of(job.training->implementation.loop).accelerate) return;
  check_rules(kTrainerRules, root, job, diagnostics);
}

}  // namespace memest
