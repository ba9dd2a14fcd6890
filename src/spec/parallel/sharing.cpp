#include "memest/spec/parallel/sharing.hpp"

namespace memest {
namespace {

std::string value_of(const FullySharded& fsdp) {
  std::string keys = "{version: " + std::to_string(fsdp.version);
  if (fsdp.reshard != Reshard::always) {
    keys += ", reshard_after_forward: " + std::string(name_of(fsdp.reshard));
  }
  if (fsdp.replicate > 1) keys += ", replicate: " + std::to_string(fsdp.replicate);
  if (fsdp.init) keys += ", init: " + std::string(name_of(*fsdp.init));
  if (fsdp.sync_module_states) keys += ", sync_module_states: true";
  if (fsdp.trained_apart) keys += ", units: adapters";
  if (fsdp.no_sync) keys += ", no_sync: true";
  return keys + "}";
}

}  // namespace

Sharing Sharing::by_stage(ZeroStage stage) {
  Sharing sharing;
  sharing.zero = stage;
  return sharing;
}

Sharing Sharing::by_distributed_optimizer() {
  Sharing sharing = by_stage(ZeroStage::optimizer);
  sharing.distributed_optimizer = true;
  return sharing;
}

Sharing Sharing::by_rows(Reshard reshard, std::int64_t replicas) {
  Sharing sharing = by_stage(ZeroStage::optimizer_gradients_weights);
  sharing.fsdp = FullySharded{.reshard = reshard, .replicate = replicas};
  return sharing;
}

Sharing Sharing::by_flat_units() {
  Sharing sharing = by_stage(ZeroStage::optimizer_gradients_weights);
  sharing.fsdp = FullySharded{.version = 1, .no_sync = true};
  return sharing;
}

bool Sharing::in_stages() const {
  return zero != ZeroStage::none && !fsdp && !distributed_optimizer;
}

Sharing sharing_of(const Parallelism& layout) {
  return {layout.zero, layout.distributed_optimizer, layout.fsdp, layout.offload};
}

void share(Parallelism& layout, const Sharing& sharing) {
  layout.zero = sharing.zero;
  layout.distributed_optimizer = sharing.distributed_optimizer;
  layout.fsdp = sharing.fsdp;
  layout.offload = sharing.offload;
}

void cut_states(Parallelism& layout, ZeroStage stage) { layout.zero = stage; }

void divide_optimizer(Parallelism& layout) {
  layout.zero = ZeroStage::optimizer;
  layout.distributed_optimizer = true;
}

std::string text_of(const Sharing& sharing) {
  std::string text;
  if (sharing.fsdp) {
    text = "FSDP" + std::to_string(sharing.fsdp->version);
    if (sharing.fsdp->replicate > 1) {
      text += " in " + std::to_string(sharing.fsdp->replicate) + " replicas";
    }
  } else {
    text = "ZeRO " + std::to_string(static_cast<int>(sharing.zero));
  }
  const HostOffload& offload = sharing.offload;
  if (!offload.any()) return text;
  text += offload.optimizer ? ", the optimizer" : ", the weights";
  if (offload.optimizer && offload.parameters) text += " and the weights";
  text += " on the host";
  return text;
}

WrittenKey written_key_of(const Sharing& sharing) {
  if (sharing.distributed_optimizer) return {"distributed_optimizer", "true"};
  if (sharing.fsdp) return {"fsdp", value_of(*sharing.fsdp)};
  return {"zero", std::to_string(static_cast<int>(sharing.zero))};
}

}  // namespace memest
