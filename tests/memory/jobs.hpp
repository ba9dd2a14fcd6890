// Jobs and graphs that the tests of the memory room share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "memest/graph/lower.hpp"
#include "memest/memory/ledger.hpp"
#include "memest/reader/catalog.hpp"

namespace memest::testing {

inline constexpr std::int64_t kGpt2Xl = 1557611200;
inline constexpr std::int64_t kLlama3 = 8030261248;

/// A job with a recipe and an optimizer of the catalogs, 8 sequences of 1024 tokens a step.
inline Job job_of(const std::string& recipe, const std::string& optimizer = "adam") {
  Job job;
  job.training.emplace();
  job.training->recipe = find_recipe(recipe).value();
  job.training->optimizer = find_optimizer(optimizer).value();
  job.training->optimizer_implementation =
      job.training->optimizer.implementations.front().implementation;
  job.scaled_margins = find_margins(job.training->implementation);
  job.training->seq_len = 1024;
  job.training->micro_batch = 8;
  job.hardware.gpu = find_gpu("h200-sxm-141gb").value();
  return job;
}

inline ModelSpec llama(std::int64_t layers, std::int64_t hidden_size, std::int64_t heads,
                       std::int64_t kv_heads, std::int64_t ffn_size) {
  DenseFeedForward feed_forward;
  feed_forward.size = ffn_size;
  LayerKind kind;
  kind.feed_forward = feed_forward;
  SoftmaxAttention attention;
  attention.heads = heads;
  attention.kv_heads = kv_heads;
  attention.head_dim = hidden_size / heads;
  DecoderSpec decoder;
  decoder.hidden_size = decoder.embedding_size = hidden_size;
  decoder.vocab_size = 128256;
  decoder.kinds = {kind};
  decoder.order = {{0, layers}};
  decoder.attention = attention;
  decoder.position = RotaryPosition{hidden_size / heads, 1};
  ModelSpec model;
  model.model_type = "llama";
  model.architecture = decoder;
  return model;
}

inline ModelSpec llama_3_8b() { return llama(32, 4096, 32, 8, 14336); }

/// A graph without operations whose parameters are `inventory`: its ledger is the states'.
inline Graph states_only(Inventory inventory) {
  Graph graph;
  graph.parameters = std::move(inventory);
  bind_tokens(graph.sizes, 1, 1024);
  Block nothing;
  nothing.name = "nothing";
  nothing.tensors.emplace_back();
  nothing.tensors.front().shared = true;  // no batch either
  graph.blocks.push_back(nothing);
  graph.order.push_back({});
  return graph;
}

/// One vector of `parameters` elements.
inline Inventory one_tensor(std::int64_t parameters) {
  ParameterTensor tensor;
  tensor.name = "all";
  tensor.shape = {parameters};
  Inventory inventory;
  inventory.parameters.push_back(tensor);
  return inventory;
}

inline Graph lowered(const Job& job) {
  return std::get<Graph>(lower(job.model, policy_of(*job.training, kHopper)));
}

inline Ledger ledger_of(const Job& job) { return write_ledger(lowered(job), job); }

inline MemoryEstimate estimate_of(const Ledger& ledger) {
  return estimate_memory(ledger, ledger.bindings);
}

/// The terms alive at the instant of this name.
inline Bytes total_at(const Ledger& ledger, std::string_view instant) {
  for (const InstantTotal& total : estimate_of(ledger).instants) {
    if (ledger.instants[total.index].name == instant) return total.total;
  }
  return {};
}

/// Bytes of all terms of the ledger whose name begins so.
inline std::int64_t named_bytes(const Ledger& ledger, std::string_view beginning) {
  std::int64_t total = 0;
  for (const LedgerTerm& term : ledger.terms) {
    if (term.name.starts_with(beginning)) total += term.formula.bytes(ledger.bindings).value();
  }
  return total;
}

inline std::int64_t group_bytes(const Ledger& ledger, TermGroup group) {
  std::int64_t total = 0;
  for (const Term& term : estimate_of(ledger).terms) {
    if (ledger.terms[term.index].group == group) total += term.value.value();
  }
  return total;
}

}  // namespace memest::testing
