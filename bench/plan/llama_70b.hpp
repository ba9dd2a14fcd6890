// Llama-3-70B on up to 512 GPUs of three types, as the benchmarks of searches share it.
#pragma once

#include <memory>

#include "memest/plan/search.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/reader/read_job.hpp"

namespace memest {

inline PlanRequest llama_70b() {
  auto text = std::make_shared<SourceText>();
  text->name = "llama.yaml";
  text->text =
      "model: llama-3-70b\n"
      "training: {seq_len: 8192, global_batch: 1536, precision: megatron, "
      "implementation: {name: megatron, layers: te}}\n";
  PlanRequest request;
  request.job = read_job(std::shared_ptr<const SourceText>(std::move(text))).value();
  for (const char* gpu : {"h100-sxm-80gb", "a100-sxm-80gb", "h200-sxm-141gb"}) {
    request.gpus.push_back(find_gpu(gpu).value());
  }
  for (std::int64_t count = 8; count <= 512; count *= 2) {
    request.counts.push_back(count);
    if (count * 3 <= 512) request.counts.push_back(count * 3);
  }
  request.prices = all_prices();
  return request;
}

}  // namespace memest
