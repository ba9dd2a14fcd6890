#include <variant>

#include "memest/graph/lower.hpp"

namespace memest {

LoweringPolicy policy_of(const TrainingSpec& training, int capability,
                         std::int64_t multiprocessors) {
  const Recipe& recipe = training.recipe;
  LoweringPolicy policy;
  policy.implementation = training.implementation;
  policy.weights = recipe.gathered_units ? recipe.compute : recipe.weights;
  policy.compute = recipe.compute;
  policy.autocast = recipe.autocast;
  policy.dropout = training.dropout;
  policy.seq_len = training.seq_len;
  policy.micro_batch = training.micro_batch;
  policy.embeddings_want_gradient = !std::holds_alternative<NoRecompute>(training.recompute);
  policy.capability = capability;
  policy.multiprocessors = multiprocessors;
  return policy;
}

}  // namespace memest
