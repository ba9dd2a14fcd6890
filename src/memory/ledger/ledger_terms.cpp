#include "memory/ledger/ledger_terms.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "memest/diag/expect.hpp"
#include "memest/spec/parallel/pipeline_schedule.hpp"
#include "memest/spec/parallel/sharding.hpp"
#include "memory/states/model_states.hpp"
#include "memory/states/overheads.hpp"

namespace memest {
namespace {

/// Elements of a unit that FSDP gathers at once: the largest layer, or block where there is none.
Expr largest_unit(const Graph& graph) {
  Expr largest;
  std::int64_t most = -1;
  for (const Block& block : graph.blocks) {
    if (!block.checkpointable && graph.layers() > 0) continue;
    const std::int64_t elements = narrow_to_int64(block.parameters().evaluate(graph.sizes));
    if (elements > most) {
      most = elements;
      largest = block.parameters();
    }
  }
  return largest;
}

void bind_parameters(Bindings& bindings, const Graph& graph) {
  std::int64_t total = 0;
  std::int64_t trained = 0;
  std::int64_t of_experts = 0;
  std::int64_t matmul = 0;
  std::int64_t largest = 0;
  std::int64_t tensors = 0;
  std::int64_t embedding = 0;
  for (const ParameterTensor& tensor : graph.parameters.parameters) {
    const std::int64_t elements = elements_of(tensor);
    const std::int64_t all = checked_multiply(elements, tensor.count);
    total = checked_add(total, all);
    if (tensor.trainable) trained = checked_add(trained, all);
    if (tensor.expert_parallel) of_experts = checked_add(of_experts, all);
    if (tensor.role == ParameterRole::matmul || tensor.output_head) {
      matmul = checked_add(matmul, all);
    }
    if (tensor.role == ParameterRole::embedding && embedding == 0) embedding = elements;
    if (tensor.trainable) largest = std::max(largest, elements);
    tensors = checked_add(tensors, tensor.count);
  }
  bindings.set(Symbol::parameters, total)
      .set(Symbol::trainable, trained)
      .set(Symbol::expert_parameters, of_experts)
      .set(Symbol::matmul_parameters, matmul)
      .set(Symbol::embedding, embedding)
      .set(Symbol::largest_parameter, largest)
      .set(Symbol::tensors, tensors);
}

/// L is the layers of one stage, w the micro-steps that its rank has in flight at most.
void bind_stage(Bindings& bindings, const Graph& graph, const Job& job, std::int64_t rank) {
  const Parallelism& parallelism = job.parallelism;
  const PipelinePlace place = place_of(parallelism, rank);
  bindings.set(Symbol::pipeline, parallelism.pipeline)
      .set(Symbol::layers, graph.layers(graph.stage_runs().front()))
      .set(Symbol::in_flight,
           most_in_flight(parallelism.schedule, place, job.training->gradient_accumulation));
}

/// A graph of many blocks has many terms of one name.
std::size_t hash_of(const LedgerTerm& term) {
  constexpr std::size_t kOddFactor = 0x9E3779B97F4A7C15U;  // 2^64 over the golden ratio
  std::size_t hash = std::hash<std::string>{}(term.name);
  const auto mix = [&hash](auto number) {
    hash = (hash ^ static_cast<std::size_t>(number)) * kOddFactor;
  };
  for (const Monomial& monomial : term.formula.monomials()) {
    mix(monomial.coefficient.numerator());
    mix(monomial.coefficient.denominator());
  }
  return hash;
}

}  // namespace

LedgerTerms::LedgerTerms(const Graph& graph, const Job& job, std::int64_t pipeline_rank) {
  ledger_.bindings = graph.sizes;
  bind_parameters(ledger_.bindings, graph);
  if (!graph.stages.empty()) bind_stage(ledger_.bindings, graph, job, pipeline_rank);
  const Sharding sharding = sharding_of(job);
  const auto* zero = std::get_if<DeepSpeedZero>(&sharding);
  if (zero != nullptr) ledger_.bindings.set(Symbol::bucket, zero->settings.reduce_bucket_size);
  ledger_.bindings.set(Symbol::data, job.parallelism.data)
      .set(Symbol::context, job.parallelism.context)
      .set(Symbol::micro_batches, job.training ? job.training->gradient_accumulation : 1)
      .set(Symbol::largest_unit, narrow_to_int64(largest_unit(graph).evaluate(ledger_.bindings)));
}

std::uint16_t LedgerTerms::add(LedgerTerm term) {
  const std::size_t hash = hash_of(term);
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto found = begin; found != end; ++found) {
    const LedgerTerm& known = ledger_.terms[found->second];
    if (known.name == term.name && known.formula == term.formula) return found->second;
  }
  expect(ledger_.terms.size() < std::numeric_limits<std::uint16_t>::max(),
         "a ledger's terms are counted in 16 bits");
  const auto index = static_cast<std::uint16_t>(ledger_.terms.size());
  by_hash_.emplace(hash, index);
  ledger_.terms.push_back(std::move(term));
  return index;
}

void LedgerTerms::instant(std::string name, std::string kind, std::vector<std::uint16_t> terms) {
  ledger_.instants.push_back({std::move(name), std::move(terms)});
  kinds_.push_back(std::move(kind));
}

std::vector<Sizes> LedgerTerms::size_grid() const {
  // Instants that are the largest at none of these sizes are left out of the ledger.
  constexpr std::int64_t kMostTokens = std::int64_t{1} << 22;
  constexpr std::int64_t kLongest = std::int64_t{1} << 17;
  constexpr std::int64_t kLargestBatch = 1024;
  std::vector<std::int64_t> lengths{
      checked_multiply(ledger_.bindings.at(Symbol::seq_len), context_ranks(ledger_.bindings))};
  for (std::int64_t seq_len = 128; seq_len <= kLongest; seq_len *= 4) lengths.push_back(seq_len);
  std::vector<Sizes> grid{sizes_in(ledger_.bindings)};
  for (const std::int64_t seq_len : lengths) {
    for (std::int64_t batch = 1; batch <= kLargestBatch && batch <= kMostTokens / seq_len;
         batch *= 2) {
      grid.push_back(sizes_in(bindings_at(ledger_, batch, seq_len)));
    }
  }
  return grid;
}

std::vector<bool> LedgerTerms::possible_peaks() const {
  std::vector<SizePolynomial> terms;
  for (const LedgerTerm& term : ledger_.terms) terms.push_back(bound(term.formula));
  std::vector<bool> kept(ledger_.instants.size(), false);
  std::vector<std::int64_t> values(terms.size());
  std::vector<std::int64_t> totals(ledger_.instants.size());
  bool own_sizes = true;  // the grid begins with the job's own
  for (const Sizes& sizes : size_grid()) {
    for (std::size_t i = 0; i < terms.size(); ++i) values[i] = terms[i].evaluate(sizes);
    for (std::size_t i = 0; i < totals.size(); ++i) {
      totals[i] = 0;
      for (const std::uint16_t term : ledger_.instants[i].terms) {
        totals[i] = checked_add(totals[i], values[term]);
      }
    }
    kept[static_cast<std::size_t>(std::max_element(totals.begin(), totals.end()) -
                                  totals.begin())] = true;
    if (own_sizes) keep_largest_of_kinds(totals, kept);
    own_sizes = false;
  }
  return kept;
}

void LedgerTerms::keep_largest_of_kinds(const std::vector<std::int64_t>& totals,
                                        std::vector<bool>& kept) const {
  std::map<std::string, std::size_t> largest;
  for (std::size_t i = 0; i < totals.size(); ++i) {
    // A report shows one moment of every kind, also of those that are never the peak.
    const auto [entry, first] = largest.emplace(kinds_[i], i);
    if (!first && totals[i] > totals[entry->second]) entry->second = i;
  }
  for (const auto& [kind, index] : largest) kept[index] = true;
}

void LedgerTerms::keep_instants(const std::vector<bool>& kept) {
  std::vector<Instant> instants;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i]) instants.push_back(std::move(ledger_.instants[i]));
  }
  ledger_.instants = std::move(instants);
}

void LedgerTerms::drop_unused_terms() {
  std::vector<bool> used(ledger_.terms.size(), false);
  for (const std::uint16_t index : ledger_.outside_allocator) used[index] = true;
  for (const Instant& instant : ledger_.instants) {
    for (const std::uint16_t index : instant.terms) used[index] = true;
  }
  std::vector<std::uint16_t> moved(ledger_.terms.size(), 0);
  std::vector<LedgerTerm> terms;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) continue;
    moved[i] = static_cast<std::uint16_t>(terms.size());
    terms.push_back(std::move(ledger_.terms[i]));
  }
  ledger_.terms = std::move(terms);
  for (std::uint16_t& index : ledger_.outside_allocator) index = moved[index];
  for (Instant& instant : ledger_.instants) {
    for (std::uint16_t& index : instant.terms) index = moved[index];
    std::sort(instant.terms.begin(), instant.terms.end());
  }
}

void LedgerTerms::outside(LedgerTerm term) {
  ledger_.outside_allocator.push_back(add(std::move(term)));
}

Ledger LedgerTerms::take(LedgerScope scope) && {
  if (scope == LedgerScope::layouts) return std::move(ledger_);
  keep_instants(possible_peaks());
  drop_unused_terms();
  for (const LedgerTerm& term : ledger_.terms) ledger_.by_size.push_back(bound(term.formula));
  return std::move(ledger_);
}

Sizes sizes_in(const Bindings& bindings) {
  Sizes sizes{};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (bindings.has(kSizeSymbols[i])) sizes[i] = bindings.at(kSizeSymbols[i]);
  }
  return sizes;
}

}  // namespace memest
