// The ledger of a forward without gradients: weights, what the model answers, and the needs of the
// running operation. A ledger of generate() has the prompts' forward, the first pass behind it,
// which finds caches as long as the prompts, and the last, whose caches are the longest.
#include "memory/ledger/inference_ledger.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memory/engine/sites.hpp"
#include "memory/generation/generation_terms.hpp"
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

constexpr const char* kGenerateSource =
    "transformers 5.17, generation/utils.py: generate(), without end before the last token";

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

/// Blocks that run one after another, and what stands around them.
struct LedgerPass {
  std::string name;  ///< "forward"
  std::span<const BlockRun> order;
  std::optional<Expr> tokens = {};  ///< S of a decoding pass: those of a sequence with the pass
  /// Whether the layers that have not run yet hold caches, and hold them as the prompts left them.
  bool holds = false;
  bool as_prompted = false;
};

class InferenceLedgerWriter {
 public:
  InferenceLedgerWriter(const Graph& graph, const Job& job)
      : graph_(graph), job_(job), terms_(graph, job) {}

  Ledger write() && {
    add_all(always_, weight_terms(job_, graph_.parameters));
    add_all(always_, buffer_terms(graph_.parameters));
    add_all(always_, workspace_terms(graph_, job_));
    add(always_, batch_term(graph_));
    LedgerPass prompts{"forward", graph_.order};
    if (job_.inference->generation) {
      write_generation(prompts);
    } else {
      write_pass(prompts, {});
    }
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

  [[nodiscard]] static Expr at(const LedgerPass& pass, const Expr& bytes) {
    return pass.tokens ? bytes.substitute(Symbol::cached_keys, *pass.tokens) : bytes;
  }

  /// Adds the tensors that the blocks before the site leave until the forward's end.
  void add_kept(Alive& alive, const LedgerPass& pass, const Site& site) {
    Expr casts;
    for (std::size_t i = 0; i < graph_.blocks.size(); ++i) {
      casts += site.before[i] * bytes_where(graph_.blocks[i], [](const Tensor& tensor) {
                 return tensor.role == Role::cast_parameter;
               });
    }
    add(alive,
        {"weights cast by autocast", TermGroup::weights, casts,
         "torch.autocast: a copy of every matmul weight until the forward's context ends", ""});
    LedgerTerm answered = answered_term(graph_, site.before);
    answered.formula = at(pass, answered.formula);
    add(alive, std::move(answered));
    if (!pass.holds) return;
    const Expr held = pass.as_prompted ? prompted_cache(layers_in(site.after))
                                       : at(pass, cache_part(site.after, CachePart::before));
    add(alive, {"key-value cache of the layers to come", TermGroup::activations, held,
                kGenerateSource, ""});
  }

  [[nodiscard]] std::int64_t layers_in(const std::vector<std::int64_t>& blocks) const {
    std::int64_t layers = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (graph_.blocks[i].checkpointable) layers += blocks[i];
    }
    return layers;
  }

  /// Caches of so many of the model's last layers behind the prompts' forward.
  [[nodiscard]] Expr prompted_cache(std::int64_t layers) const {
    Expr bytes;
    for (auto run = graph_.order.rbegin(); run != graph_.order.rend() && layers > 0; ++run) {
      const Block& block = graph_.blocks[run->block];
      if (!block.checkpointable) continue;
      const std::int64_t here = std::min(layers, run->repeat);
      bytes += here * bytes_where(block, [](const Tensor& tensor) { return tensor.answered; });
      layers -= here;
    }
    return bytes;
  }

  [[nodiscard]] Expr cache_part(const std::vector<std::int64_t>& times, CachePart part) const {
    Expr bytes;
    for (std::size_t i = 0; i < graph_.blocks.size(); ++i) {
      if (times[i] == 0) continue;
      bytes += times[i] * bytes_where(graph_.blocks[i], [part](const Tensor& tensor) {
                 return tensor.cache_part == part;
               });
    }
    return bytes;
  }

  /// Tables, masks and embeddings that the model's forward holds in locals while operation `at` of
  /// the site runs: those that no operation before it in the block has let go. The first layer's
  /// operands count as its input.
  [[nodiscard]] Expr locals_at(const LedgerPass& pass, const Site& site, std::size_t at) const {
    const Block& first = graph_.blocks[pass.order.front().block];
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

  /// Keys and values that the block's own cache holds from before the pass while operation `at`
  /// runs.
  [[nodiscard]] Expr held_at(const LedgerPass& pass, const Block& block, std::size_t at) const {
    Expr bytes;
    for (TensorId id = 0; id < block.tensors.size(); ++id) {
      if (block.tensors[id].cache_part != CachePart::before) continue;
      const auto lets_go = [id](const Op& op) {
        return std::find(op.releases.begin(), op.releases.end(), id) != op.releases.end();
      };
      const auto end = block.ops.begin() + static_cast<std::ptrdiff_t>(at);
      if (std::any_of(block.ops.begin(), end, lets_go)) continue;
      bytes += block.tensors[id].bytes();
    }
    if (!pass.as_prompted || bytes.is_zero()) return this->at(pass, bytes);
    return prompted_cache(1);
  }

  void write_pass(const LedgerPass& pass, const Alive& around) {
    for (const Site& site : sites_of(graph_, pass.order, {})) write_site(pass, site, around);
  }

  void write_site(const LedgerPass& pass, const Site& site, const Alive& around) {
    const Block& block = graph_.blocks[site.block];
    Alive base = always_;
    base.insert(base.end(), around.begin(), around.end());
    add_kept(base, pass, site);
    for (const Moment& moment : moments_of(block, BlockPass::keep_answer).forward) {
      Alive alive = base;
      add(alive, {"tables, masks and embeddings that the model holds", TermGroup::activations,
                  at(pass, locals_at(pass, site, moment.at)), kForwardSource, ""});
      add(alive, {"held of the " + block.name + " at work", TermGroup::activations,
                  at(pass, moment.saved) + held_at(pass, block, moment.at), kForwardSource, ""});
      add(alive, {std::string(moment.op) + ", " + pass.name, TermGroup::activations,
                  at(pass, moment.live), kForwardSource, ""});
      terms_.instant(pass.name + ": " + site.name + ", " + std::string(moment.op),
                     pass.name + ": " + block.name, std::move(alive));
    }
  }

  void write_generation(const LedgerPass& prompts) {
    const GenerationTerms terms(*job_.inference, graph_);
    const auto around = [&](std::vector<LedgerTerm> of) {
      Alive alive;
      add_all(alive, std::move(of));
      return alive;
    };
    write_pass(prompts, around(terms.around_prompts()));
    const Expr s = Symbol::seq_len;
    const std::int64_t tokens = job_.inference->generation->tokens;
    const std::vector<std::int64_t> none(graph_.blocks.size(), 0);
    write_choice("first choice", prompted_cache(graph_.layers()), around(terms.of_choice(s)));
    const DecodePass& first = graph_.decoding.front();
    const DecodePass& last = graph_.decoding.back();
    const bool reorders = job_.inference->beams() > 1;
    if (reorders) {
      write_choice("first beams", prompted_cache(graph_.layers()), around(terms.of_merge(s)));
      write_choice("first reordering", prompted_cache(graph_.layers()) + moved_keys(first, s),
                   around(terms.of_update(s)));
    }
    if (tokens > 1) {
      const Expr next = s + Expr(1);
      write_pass({"first decoding", first.order, next, true, !reorders},
                 around(terms.around_pass(next)));
    }
    // The last pass is of all tokens but the last.
    const Expr longest = s + Expr(tokens - 1);
    if (tokens > 2) {
      write_pass({"last decoding", last.order, longest, true, false},
                 around(terms.around_pass(longest)));
    }
    const LedgerPass end{"", last.order, longest};
    const Expr cache = tokens > 1 ? at(end, cache_part(repeats_of(last), CachePart::after))
                                  : prompted_cache(graph_.layers());
    write_choice("last choice", cache, around(terms.of_choice(longest)));
    if (reorders) {
      write_choice("last beams", cache, around(terms.of_merge(longest)));
      write_choice("last reordering", cache + moved_keys(last, longest),
                   around(terms.of_update(longest)));
    }
  }

  [[nodiscard]] std::vector<std::int64_t> repeats_of(const DecodePass& pass) const {
    std::vector<std::int64_t> times(graph_.blocks.size(), 0);
    for (const BlockRun& run : pass.order) times[run.block] += run.repeat;
    return times;
  }

  /// The copy of one layer's keys of so many tokens, of the layer that has most.
  [[nodiscard]] Expr moved_keys(const DecodePass& pass, const Expr& tokens) const {
    Expr most;
    for (const BlockRun& run : pass.order) {
      std::vector<std::int64_t> once(graph_.blocks.size(), 0);
      once[run.block] = 1;
      const Expr bytes =
          cache_part(once, CachePart::before).substitute(Symbol::cached_keys, tokens + Expr(1)) /
          Expr(2);
      if (bytes.is_zero()) continue;
      if (most.is_zero() || bytes.evaluate(graph_.sizes) > most.evaluate(graph_.sizes)) {
        most = bytes;
      }
    }
    return most;
  }

  void write_choice(const std::string& name, const Expr& cache, const Alive& around) {
    Alive alive = always_;
    alive.insert(alive.end(), around.begin(), around.end());
    add(alive, {"key-value cache", TermGroup::activations, cache, kGenerateSource, ""});
    terms_.instant("decode: " + name, "decode: " + name, std::move(alive));
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
