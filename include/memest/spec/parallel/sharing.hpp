// A layout's choice of who shares the states of its replicas: the keys of `parallelism` that a
// spec writes and a search chooses. Under a framework they resolve to a Sharding
// (sharding.hpp).
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "memest/spec/parallel/parallelism.hpp"

namespace memest {

struct Sharing {
  ZeroStage zero = ZeroStage::none;
  bool distributed_optimizer = false;
  std::optional<FullySharded> fsdp;
  HostOffload offload;

  static Sharing by_stage(ZeroStage stage);
  /// Megatron's.
  static Sharing by_distributed_optimizer();
  /// FSDP2's, of so many replicas of the sharded model.
  static Sharing by_rows(Reshard reshard, std::int64_t replicas);
  /// FSDP1's, of all ranks, which reduces in a step's last micro-step.
  static Sharing by_flat_units();

  /// FSDP, of either version.
  [[nodiscard]] bool in_units() const { return fsdp.has_value(); }
  [[nodiscard]] bool in_flat_units() const { return fsdp && fsdp->version == 1; }
  /// FSDP's version; 0 without.
  [[nodiscard]] int version_of_units() const { return fsdp ? fsdp->version : 0; }
  /// ZeRO's, of DeepSpeed or of a formula.
  [[nodiscard]] bool in_stages() const;
  /// The states that are cut, whoever cuts them.
  [[nodiscard]] ZeroStage stage() const { return zero; }
  [[nodiscard]] bool divides_optimizer() const { return distributed_optimizer; }
  /// Replicas of the sharded model.
  [[nodiscard]] std::int64_t replicas() const { return fsdp ? fsdp->replicate : 1; }
  /// Whether flat tensors are cut into as many parts as there are ranks.
  [[nodiscard]] bool in_flat_parts() const { return in_stages() || in_flat_units(); }

  friend auto operator<=>(const Sharing&, const Sharing&) = default;
};

Sharing sharing_of(const Parallelism& layout);
/// Writes it into the layout.
void share(Parallelism& layout, const Sharing& sharing);
/// The stage alone; what is written of units and offload stays.
void cut_states(Parallelism& layout, ZeroStage stage);
/// Megatron's distributed optimizer beside what is written else.
void divide_optimizer(Parallelism& layout);

/// "ZeRO 2", "FSDP2 in 4 replicas, the optimizer and the weights on the host".
std::string text_of(const Sharing& sharing);

/// As a spec has it under `parallelism`: "fsdp" and "{version: 2}"; "zero" and "0" of replicas.
struct WrittenKey {
  std::string key;
  std::string value;
};
WrittenKey written_key_of(const Sharing& sharing);

}  // namespace memest
