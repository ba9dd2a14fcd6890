#include "memest/spec/parallel/expert_ranks.hpp"

#include <variant>

#include "memest/spec/framework.hpp"

namespace memest {

// torchtitan 0.2.2, parallel_dims.py, build_mesh: efsdp = dp_shard · cp · tp // (etp · ep),
// unflattened from the world.
bool expert_ranks_divide_shards(const Parallelism& parallelism) {
  return parallelism.ranks_of_experts() % parallelism.expert == 0;
}

bool has_experts_apart(const Job& job) {
  const FrameworkRow& framework = row_of(job.training->implementation.framework);
  return framework.units.experts_apart && job.parallelism.expert > 1;
}

// FSDPParam._init_sharded_parameter: "FSDP does not support uneven sharding on dim 1". w1 and
// w3 have an expert's size there, w2 the hidden one.
bool expert_columns_divide(const ModelSpec& model, const Parallelism& parallelism) {
  const MixtureOfExperts* experts = model.experts();
  const auto* decoder = std::get_if<DecoderSpec>(&model.architecture);
  if (experts == nullptr || decoder == nullptr || !parallelism.cuts_columns(experts->experts)) {
    return true;
  }
  const std::int64_t ranks = parallelism.expert_shard_ranks();
  return experts->expert_size % ranks == 0 && decoder->hidden_size % ranks == 0;
}

}  // namespace memest
