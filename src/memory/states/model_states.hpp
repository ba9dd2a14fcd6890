// Weights, gradients and optimizer states: 2Φ + 2Φ + KΦ in every recipe, and what ZeRO divides.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/memory/ledger.hpp"
#include "memest/spec/job.hpp"
#include "memest/spec/model.hpp"

namespace memest {

/// The ZeRO stage in effect: FSDP2's recipes shard everything, whatever else is written.
ZeroStage zero_stage_of(const Job& job);

/// Elements of a rank's share: `elements`, over the ranks where the job's stage is at least
/// `stage`.
Expr share_of_stage(const Job& job, ZeroStage stage, const Expr& elements);
/// As above, for elements cut over the ranks in any case: data and context parallel ones, in each
/// replica of FSDP's.
Expr unit_share(const Job& job, const Expr& elements);

/// The type that the optimizer steps: the master copy where there is one.
DType stepped_type(const Recipe& recipe);
/// As above, for one tensor.
DType stepped_type(const Recipe& recipe, const ParameterTensor& tensor);

/// The model's own weights, and fp8 copies of them.
std::vector<LedgerTerm> weight_terms(const Job& job, const Inventory& inventory);

/// Whether a gradient goes to the host as soon as it is reduced.
bool gradients_on_host(const Job& job);

/// The gradients that the backward pass leaves, all of them.
LedgerTerm gradient_term(const Job& job, const Inventory& inventory);

/// Elements that are trained: Φ, or Φt where some parameters are frozen.
Expr trained_parameters(const Inventory& inventory);

/// The optimizer's own copy of what it steps.
std::vector<LedgerTerm> master_terms(const Job& job, const Inventory& inventory);

/// The optimizer's states.
std::vector<LedgerTerm> state_terms(const Job& job, const Inventory& inventory);

/// Whether nothing but the first step is looked at, and it is the one that makes the states.
bool makes_states_in_step(const TrainingSpec& training);

/// Whether all gradients stay allocated through the forward pass.
bool gradients_persist(const Job& job);

/// Tables and statistics that belong to the model and are not trained.
std::vector<LedgerTerm> buffer_terms(const Inventory& inventory);
/// The copy that follows the weights; none where `training.ema` is off.
std::vector<LedgerTerm> average_terms(const Job& job, const Inventory& inventory);

/// Bytes that the optimizer step allocates beside the states.
std::vector<LedgerTerm> step_terms(const Job& job, const Inventory& inventory);

/// Bytes that clipping the gradient norm allocates.
LedgerTerm clip_term(const Inventory& inventory);

/// Temporaries of the job's optimizer in the implementation that the job names.
const ImplementationTransient& implementation_of(const TrainingSpec& training);

/// Bytes of the tensors that `state` is for one parameter: none, one or two.
std::vector<std::int64_t> state_tensors(const OptimizerState& state, const ParameterTensor& tensor,
                                        const Recipe& recipe);

/// Bytes that the norm of `tensors` gradients, the largest of `largest` elements, sums into.
std::int64_t partial_norm_bytes(std::int64_t tensors, std::int64_t largest);

/// Elements of one tensor, and of all tensors.
std::int64_t elements_of(const ParameterTensor& tensor);
std::int64_t elements_of(const Inventory& inventory);

}  // namespace memest
