// The ledger of a forward without gradients: weights, what the model answers, and what the running
// operation needs.
#include "memory/ledger/inference_ledger.hpp"

#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memory/engine/sites.hpp"
#include "memory/ledger/graph_terms.hpp"
#include "memory/ledger/ledger_terms.hpp"
#include "memory/moments/moments.hpp"
#include "memory/states/model_states.hpp"
#include "memory/states/overheads.hpp"

namespace memest {
namespace {

using Alive = std::vector<std::uint16_t>;

constexpr const char* kForwardSource =
    "PyTorch 2.11 under no_grad: locals and temporaries of the operation";

/// Bytes of the block's storages that `chosen` picks.
template <class Chosen>
Expr bytes_where(const Block& block, const Chosen& chosen) {
  Expr bytes;
  for (TensorId id = 0; id < block.tensors.size(); ++id) {
    const Tensor& tensor = block.tensors[id];
    if (tensor.storage == id && chosen(tensor)) bytes += tensor.bytes();
  }
  return bytes;
}

class InferenceLedgerWriter {
 public:
  InferenceLedgerWriter(const Graph& graph, const Job& job)
      : graph_(graph), job_(job), terms_(graph, job) {}

  Ledger write() && {
    add_all(always_, weight_terms(job_, graph_.parameters));
    add_all(always_, buffer_terms(graph_.parameters));
    add_all(always_, workspace_terms(graph_, job_));
    add(always_, batch_term(graph_));
    for (const Site& site : sites_of(graph_, graph_.order, {})) write_site(site);
    OutsideTerms outside = outside_terms(job_);
    for (LedgerTerm& term : outside.terms) terms_.outside(std::move(term));
    Ledger ledger = std::move(terms_).take();
    ledger.outside_low = outside.low;
    ledger.outside_high = outside.high;
    ledger.margin = margin_of(job_.margins().closed_form, NoRecompute{});
    return ledger;
  }

 private:
  void add(Alive& alive, LedgerTerm term) {
    if (!term.formula.is_zero()) alive.push_back(terms_.add(std::move(term)));
  }
  void add_all(Alive& alive, std::vector<LedgerTerm> terms) {
    for (LedgerTerm& term : terms) add(alive, std::move(term));
  }

  /// Adds the tensors that the blocks before the site leave until the forward's end.
  void add_kept(Alive& alive, const Site& site) {
    Expr casts;
    for (std::size_t i = 0; i < graph_.blocks.size(); ++i) {
      casts += site.before[i] * bytes_where(graph_.blocks[i], [](const Tensor& tensor) {
                 return tensor.role == Role::cast_parameter;
               });
    }
    add(alive,
        {"weights cast by autocast", TermGroup::weights, casts,
         "torch.autocast: a copy of every matmul weight until the forward's context ends", ""});
    add(alive, answered_term(graph_, site.before));
  }

  /// Tables, masks and embeddings that the model's forward holds in locals while operation `at` of
  /// the site runs: those that no operation before it in the block has let go. The first layer's
  /// operands count as its input.
  [[nodiscard]] Expr locals_at(const Site& site, std::size_t at) const {
    const Block& first = graph_.blocks[graph_.order.front().block];
    const std::int64_t before =
        std::accumulate(site.before.begin(), site.before.end(), std::int64_t{0});
    if (before == 0) return {};
    const Tensor& handed_on = first.tensors[first.tensors[first.output].storage];
    const Block& block = graph_.blocks[site.block];
    const auto gone = [&](std::string_view name) {
      for (std::size_t i = 0; i < at; ++i) {
        for (const TensorId id : block.ops[i].releases) {
          if (block.tensors[id].shared && block.tensors[id].name == name) return true;
        }
      }
      return false;
    };
    return bytes_where(first, [&](const Tensor& tensor) {
      const bool is_input = before == 1 && &tensor == &handed_on;
      return tensor.outlives_block && !is_input && !gone(tensor.name);
    });
  }

  void write_site(const Site& site) {
    const Block& block = graph_.blocks[site.block];
    Alive base = always_;
    add_kept(base, site);
    const std::vector<Moment> moments = moments_of(block, BlockPass::keep_answer).forward;
    for (std::size_t at = 0; at < moments.size(); ++at) {
      const Moment& moment = moments[at];
      Alive alive = base;
      add(alive, {"tables, masks and embeddings that the model holds", TermGroup::activations,
                  locals_at(site, at), kForwardSource, ""});
      add(alive, {"held of the " + block.name + " at work", TermGroup::activations, moment.saved,
                  kForwardSource, ""});
      add(alive, {std::string(moment.op) + ", forward", TermGroup::activations, moment.live,
                  kForwardSource, ""});
      terms_.instant("forward: " + site.name + ", " + std::string(moment.op),
                     "forward: " + block.name, std::move(alive));
    }
  }

  const Graph& graph_;
  const Job& job_;
  LedgerTerms terms_;
  Alive always_;
};

}  // namespace

Ledger write_inference_ledger(const Graph& graph, const Job& job) {
  return InferenceLedgerWriter(graph, job).write();
}

}  // namespace memest
