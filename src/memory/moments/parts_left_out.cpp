#include "memory/moments/parts_left_out.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "memest/diag/expect.hpp"

namespace memest {
namespace {

class PartFinder {
 public:
  PartFinder(const Block& block, const SelectiveRecompute& parts) : block_(block), parts_(parts) {}

  std::vector<PartLeftOut> find() && {
    add_checkpoint(parts_.attention_core, &LayerParts::attention_core);
    add_checkpoint(parts_.feed_forward, &LayerParts::feed_forward);
    add_checkpoint(parts_.experts, &LayerParts::experts);
    add_checkpoint(parts_.shared_experts, &LayerParts::shared_experts);
    add_checkpoint(parts_.predictions, &LayerParts::prediction);
    add_remade();
    std::ranges::sort(list_, {}, &PartLeftOut::begin);
    return std::move(list_);
  }

 private:
  void add_checkpoint(bool chosen, bool LayerParts::* inside) {
    if (!chosen) return;
    add_stretches([inside](const Op& op) { return op.part_of.*inside; },
                  [this](PartLeftOut part) { list_.push_back(std::move(part)); });
  }

  void add_remade() {
    for (const Remade kind : {Remade::norm, Remade::expert_activation, Remade::latent_projection}) {
      if (!remakes(parts_, kind)) continue;
      add_stretches([kind](const Op& op) { return op.remade == kind; },
                    [this, kind](PartLeftOut part) { add_thrown_away(std::move(part), kind); });
    }
  }

  void add_thrown_away(PartLeftOut part, Remade kind) {
    part.last = part.end;
    while (part.last < block_.ops.size() && block_.ops[part.last].drops != kind) ++part.last;
    expect(part.last < block_.ops.size(), "results that are made again are thrown away somewhere");
    for (std::size_t i = part.begin; i < part.end; ++i) {
      const Op& op = block_.ops[i];
      if (op.answers_part) part.results.push_back(block_.tensors[op.outputs.front()].storage);
    }
    list_.push_back(std::move(part));
  }

  /// Tells `add` of each stretch of operations that `inside` has.
  void add_stretches(const std::function<bool(const Op&)>& inside,
                     const std::function<void(PartLeftOut)>& add) const {
    for (std::size_t i = 0; i < block_.ops.size(); ++i) {
      const std::size_t begin = i;
      while (i < block_.ops.size() && inside(block_.ops[i])) ++i;
      if (i > begin) add({begin, i, i - 1});
    }
  }

  const Block& block_;
  const SelectiveRecompute& parts_;
  std::vector<PartLeftOut> list_;
};

}  // namespace

std::vector<PartLeftOut> parts_left_out(const Block& block, const SelectiveRecompute& parts) {
  return PartFinder(block, parts).find();
}

std::vector<TensorId> entering(const Block& block, const PartLeftOut& part, const Op& op) {
  std::vector<TensorId> result;
  for (const TensorId id : op.inputs) {
    const TensorId storage = block.tensors[id].storage;
    bool made = false;
    for (std::size_t i = part.begin; i < part.end && !made; ++i) {
      made = std::ranges::any_of(block.ops[i].outputs, [&](TensorId output) {
        return block.tensors[output].storage == storage;
      });
    }
    if (!made) result.push_back(id);
  }
  return result;
}

}  // namespace memest
