#include "plan/layouts/followed.hpp"

#include "memest/spec/framework.hpp"
#include "memest/spec/parallel/sharing.hpp"

namespace memest {

bool is_followed(const Job& job, const Parallelism& layout) {
  const LoopRow& loop = row_of(job.training->implementation.loop);
  const auto& quantized = job.model.quantized;
  const bool int8 = quantized && quantized->format == WeightFormat::int8;
  if (loop.prefers || int8 || job.model.vision) return true;
  const Sharing sharing = sharing_of(layout);
  const bool shared = sharing.in_units() || sharing.in_stages();
  if (loop.takes_tiles && shared) return true;
  const auto& adapter = job.model.adapter;
  if (!adapter) return false;
  return adapter->kind != AdapterKind::lora || (shared && !adapter->parallel);
}

}  // namespace memest
