// CUDA graphs: --cuda-graph-impl and --cuda-graph-scope, and the flags that said so before them.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memest/spec/implementation.hpp"
#include "reader/export/written.hpp"
#include "reader/foreign/megatron/arguments.hpp"
#include "reader/foreign/megatron/megatron.hpp"
#include "reader/text/scalar.hpp"

namespace memest::megatron {
namespace {

constexpr std::string_view kOwnKey = "training.implementation.cuda_graph";
constexpr std::string_view kFullIteration = "full_iteration";

/// The words of cuda_graph_scope: a list, or a string with commas between them.
std::vector<std::string> scope_words(const Value* written) {
  if (written == nullptr) return {};
  std::vector<std::string> words;
  const auto add = [&words](const std::string& text) {
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t comma = std::min(text.find(',', at), text.size());
      if (comma > at) words.push_back(text.substr(at, comma - at));
      at = comma + 1;
    }
  };
  if (written->kind == ValueKind::scalar) add(written->text);
  for (const Value& item : written->items) add(item.text);
  return words;
}

bool is_scope(const std::string& word) {
  return std::ranges::any_of(kGraphScopes,
                             [&word](GraphScope scope) { return name_of(scope) == word; });
}

/// An empty scope is the whole layer ("full" of the releases before).
std::vector<std::string> or_whole_layer(std::vector<std::string> words,
                                        const MegatronFile& megatron) {
  std::erase(words, "full");
  if (!words.empty()) return words;
  return {"attn", megatron.has("num_moe_experts") ? "moe" : "mlp"};
}

}  // namespace

void write_cuda_graphs(ForeignImport& file) {
  const MegatronFile megatron(file);
  std::string_view key = megatron.key("cuda_graph_impl");
  std::string implementation = megatron.text("cuda_graph_impl", "none");
  // enable_cuda_graph and external_cuda_graph are deprecated words for local and
  // transformer_engine.
  for (const auto& [old, meant] : {std::pair{"enable_cuda_graph", "local"},
                                   std::pair{"external_cuda_graph", "transformer_engine"}}) {
    if (!megatron.flag(old, false)) continue;
    implementation = meant;
    key = megatron.key(old);
  }
  const std::string_view scope = megatron.key("cuda_graph_scope");
  std::vector<std::string> words = scope_words(file.find(scope));
  if (implementation == "none") return;
  if (implementation == kFullIteration || std::ranges::count(words, kFullIteration) > 0) {
    return file.write(kOwnKey, std::string(kFullIteration), {key, scope});
  }
  if (implementation != "transformer_engine") {
    return file.refuse(key, "a capture of layers by Megatron itself",
                       "known are transformer_engine, and the scope full_iteration");
  }
  words = or_whole_layer(std::move(words), megatron);
  if (const auto other = std::ranges::find_if_not(words, is_scope); other != words.end()) {
    return file.refuse(scope, "a CUDA graph of " + quote(*other),
                       "known are attn, mlp, moe_router, moe_preprocess and moe");
  }
  file.write(kOwnKey, list(words), {scope, key});
}

void add_graphs(const CudaGraphs& graphs, Arguments& list) {
  if (!graphs.any()) return;
  list.add("--cuda-graph-impl", graphs.full_iteration ? "local" : "transformer_engine");
  std::string scopes = graphs.full_iteration ? "full_iteration" : "";
  for (const GraphScope scope : kGraphScopes) {
    if (graphs.has(scope)) scopes += (scopes.empty() ? "" : " ") + std::string(name_of(scope));
  }
  list.add("--cuda-graph-scope", scopes);
}

}  // namespace memest::megatron
