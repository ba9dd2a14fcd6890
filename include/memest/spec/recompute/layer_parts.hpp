// The parts that a job's layers have as modules of their own, which Megatron can recompute alone.
#pragma once

#include <optional>
#include <string>

#include "memest/spec/job.hpp"
#include "memest/spec/recompute/recompute.hpp"

namespace memest {

/// `job.training` is present. Norms of layers of Transformer Engine are modules before latents and
/// experts alone: a dense layer's are fused into the products behind them (IdentityOp). The
/// attention core is left out.
SelectiveRecompute parts_of_layers(const Job& job);
/// Those of them whose results others have saved, which Megatron makes again for a product or a
/// norm more; absent where the layers have none, or another key of the job rules them out
/// (adapters, CUDA graphs, delayed scaling, a Transformer Engine before 2.6 beside products in 8
/// bits).
std::optional<SelectiveRecompute> remade_parts_of(const Job& job);
/// Whether `recompute` has a word for the part. `job.training` is present.
bool recomputes(const Job& job, bool SelectiveRecompute::* part);
/// As --recompute-modules takes them: "core_attn mlp".
std::string modules_of(const SelectiveRecompute& parts);

}  // namespace memest
