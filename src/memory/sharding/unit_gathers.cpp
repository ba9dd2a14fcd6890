// ShardedUnits' all-gathers: the forward's half of FSDPParamGroup (_fsdp_param_group.py: unshard,
// wait_for_unshard, reshard), and foreach_all_gather (_fsdp_collectives.py).
#include <numeric>
#include <utility>
#include <vector>

#include "memest/units/int128.hpp"
#include "memory/optimizer/foreach_copies.hpp"
#include "memory/sharding/sharded_units.hpp"

namespace memest {

/// A unit's weights are read in the order in which its modules register them: so are their scales.
void ShardedUnits::place_scales(const Graph& graph) {
  for (std::size_t unit = 0; unit < units_.size(); ++unit) {
    std::size_t scale = 0;
    for (const std::uint32_t use : units_[unit].uses) {
      const ParameterUse& read = order_.parameters()[use];
      const Block& block = graph.blocks[order_.instances()[read.instance].block];
      if (block.tensors[read.tensor].dtype == DType::fp8) float8_.place(use, {unit, scale++});
    }
  }
}

DType ShardedUnits::gathered_type(std::uint32_t parameter) const {
  if (row(parameter).quantized) return quantized_->storage;
  return is_in_fp8(parameter) ? DType::fp8 : gradient_type(parameter);
}

/// The type in which a backward makes the gradient: that of the gather, if it is not of fp8.
/// Parameters that are gathered without a cast keep each its own type.
DType ShardedUnits::gradient_type(std::uint32_t parameter) const {
  return casts() ? types_.gathered : share_type(parameter);
}

bool ShardedUnits::casts() const {
  return recipe_.casts_gathered() || recipe_.compute != recipe_.weights;
}

/// FSDPParam.to_accumulated_grad_if_needed: there is no type to reduce in where nothing is cast.
bool ShardedUnits::widens_sums() const { return casts() && types_.reduced != types_.gathered; }

DType ShardedUnits::share_type(std::uint32_t parameter) const {
  if (row(parameter).quantized) return quantized_->storage;
  const bool widened = row(parameter).trainable && !row(parameter).whole_module;
  return widened ? types_.share : recipe_.weights;
}

std::vector<std::int64_t> ShardedUnits::gathered_pieces(std::uint32_t parameter) const {
  const std::int64_t elements = timeline_.parameters[parameter].elements;
  const bool of_torchao = row(parameter).quantized && row_of(quantized_->format).of_torchao();
  if (!of_torchao) return {checked_multiply(elements, size_of(gathered_type(parameter)))};
  std::vector<std::int64_t> pieces;
  for (const StoredTensor& tensor :
       gathered_tensors(*quantized_, {.elements = elements}, recipe_.compute)) {
    pieces.push_back(checked_multiply(tensor.elements, size_of(tensor.dtype)));
  }
  return pieces;
}

std::int64_t ShardedUnits::gathered_share(std::uint32_t parameter) const {
  const std::vector<std::int64_t> pieces = gathered_pieces(parameter);
  return std::accumulate(pieces.begin(), pieces.end(), std::int64_t{0}, checked_add<std::int64_t>);
}

std::int64_t ShardedUnits::gathered_share_of(std::size_t unit) const {
  std::int64_t bytes = 0;
  for (const std::uint32_t parameter : units_[unit].parameters) {
    bytes = checked_add(bytes, gathered_share(parameter));
  }
  return bytes;
}

void ShardedUnits::gather(std::size_t unit, Stream stream) {
  State& state = states_[unit];
  const bool gathered = state.output.is_of_storage() || !state.weights.empty();
  if (gathered || units_[unit].parameters.empty() || units_[unit].ranks == 1) return;
  const std::int64_t share = gathered_share_of(unit);
  // foreach_all_gather makes inputs and output in the pool of all_gather_copy_in_stream; where it
  // is asynchronous, as a schedule's UNSHARD is, in the current stream's (get_all_gather_streams).
  const HeldList sent = shares_to_send(unit, stream);
  state.output = make(unit, UnitTensor::all_gather_output,
                      checked_multiply(share, units_[unit].ranks), stream);
}

/// Makes the inputs of an all-gather: one cast of all shares behind those in fp8, or each share as
/// the host sends it.
HeldList ShardedUnits::shares_to_send(std::size_t unit, Stream stream) {
  HeldList sent;
  if (!offloads_) {
    const auto made = [&](UnitTensor tensor, std::int64_t bytes) {
      return make(unit, tensor, bytes, stream);
    };
    std::int64_t others = 0;
    // _get_param_all_gather_inputs: parameters with an fsdp_pre_all_gather first, one by one.
    for (const std::uint32_t parameter : units_[unit].parameters) {
      if (is_in_fp8(parameter)) {
        sent.push_back(float8_.cast(unit, timeline_.parameters[parameter].elements, made));
      } else if (share_type(parameter) != gathered_type(parameter)) {
        others = checked_add(others, gathered_share(parameter));
      }
    }
    // all_gather_copy_in copies shares of the right type into the rank's piece of the output.
    if (others > 0) sent.push_back(made(UnitTensor::cast_shares, others));
    return sent;
  }
  for (const std::uint32_t parameter : units_[unit].parameters) {
    const std::int64_t elements = timeline_.parameters[parameter].elements;
    const auto made = [&](DType type) {
      return make(unit, UnitTensor::cast_shares, checked_multiply(elements, size_of(type)), stream);
    };
    sent.push_back(made(types_.share));
    if (recipe_.compute != recipe_.weights) sent.back() = made(types_.gathered);
  }
  return sent;
}

/// Answers what the weights were copied from.
HeldStorage ShardedUnits::take_apart(std::size_t unit) {
  State& state = states_[unit];
  const std::int64_t ranks = units_[unit].ranks;
  if (ranks == 1) copy_shares(unit);
  if (!state.output.is_of_storage()) return {};
  CopyPieces pieces;
  HeldVector by_rank;  // foreach_all_gather_copy_out: columns are put together from these
  for (const std::uint32_t parameter : units_[unit].parameters) {
    for (const std::int64_t share : gathered_pieces(parameter)) {
      const auto whole = [&] {
        return make(unit, UnitTensor::weight, checked_multiply(share, ranks));
      };
      state.weights.push_back(whole());
      if (units_[unit].by_columns) by_rank.push_back(whole());
      pieces.add(share);
    }
  }
  make(unit, UnitTensor::pointers, pieces.bytes_of_split_copy(ranks, multiprocessors_)).drop();
  float8_.take_scales(unit);
  return std::move(state.output);
}

/// FSDPParamGroup.wait_for_unshard of a unit that one rank holds whole: each parameter is a copy of
/// what it is cast to, which has its name until the next one's.
void ShardedUnits::copy_shares(std::size_t unit) {
  State& state = states_[unit];
  if (!state.weights.empty()) return;
  HeldStorage cast;
  for (const std::uint32_t parameter : units_[unit].parameters) {
    const std::int64_t bytes = gathered_share(parameter);
    if (share_type(parameter) != gathered_type(parameter)) {
      cast = make(unit, UnitTensor::cast_shares, bytes);
    }
    state.weights.push_back(make(unit, UnitTensor::weight, bytes));
  }
}

void ShardedUnits::give_back(std::size_t unit) { states_[unit].weights.drop(); }

void ShardedUnits::gather_stage(std::size_t stage) {
  for (const std::size_t unit : units_of(stage)) gather(unit, Stream::compute);
}

void ShardedUnits::take_stage_apart(std::size_t stage) {
  for (const std::size_t unit : units_of(stage)) take_apart(unit).drop();
}

void ShardedUnits::give_stage_back(std::size_t stage) {
  for (const std::size_t unit : units_of(stage)) give_back(unit);
}

}  // namespace memest
