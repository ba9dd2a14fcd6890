// The arguments of a script that calls pretrain_gpt.py.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "memest/spec/job.hpp"

namespace memest::megatron {

/// An array of the script, a flag with its values a line.
class Arguments {
 public:
  explicit Arguments(std::string_view name) : text_(std::string(name) + "=(\n") {}

  void add(std::string_view flag, const std::string& value) {
    text_ += "  " + std::string(flag) + " " + value + "\n";
  }
  void add(std::string_view flag, std::int64_t value) { add(flag, std::to_string(value)); }
  void add_if(bool on, std::string_view flag) {
    if (on) text_ += "  " + std::string(flag) + "\n";
  }
  [[nodiscard]] std::string text() const { return text_ + ")\n"; }

 private:
  std::string text_;
};

/// How the ranks share the model.
std::string layout_arguments(const Job& job);
/// --cuda-graph-impl and --cuda-graph-scope.
void add_graphs(const CudaGraphs& graphs, Arguments& list);
/// --moe-token-dispatcher-type and --moe-flex-dispatcher-backend.
void add_dispatcher(TokenDispatcher dispatcher, Arguments& list);

}  // namespace memest::megatron
