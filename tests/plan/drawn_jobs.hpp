// Jobs drawn at random over implementations, layouts and memory, small enough to be replayed often.
#pragma once

#include <cstdint>
#include <string>

#include "../draws.hpp"
#include "jobs.hpp"

namespace memest::test {

/// The beginning of a small decoder: more keys of `model` and its brace may follow.
inline std::string drawn_decoder(Draws& draws, const char* max_positions) {
  return Text() << "model: {family: decoder, layers: " << draws.one_of("1", "2", "5")
                << ", hidden_size: 256, heads: 8, kv_heads: " << draws.one_of("1", "2", "8")
                << ", ffn_size: " << draws.one_of("512", "1024")
                << ", vocab_size: " << draws.one_of("512", "1000", "32000")
                << ", activation: " << draws.one_of("swiglu", "gelu")
                << ", norm: " << draws.one_of("rmsnorm", "layernorm")
                << ", position: " << draws.one_of("rope", "learned")
                << ", max_positions: " << max_positions << ", tied_embeddings: " << draws.flag();
}

class DrawnJobs : Draws {
 public:
  using Draws::Draws;
  using Draws::one_of;

  /// A job; its GPU has all the memory that it needs.
  Job draw() {
    switch (one_of(0, 1, 2, 3, 4, 5, 6)) {
      case 0:
        return job_from(Text() << model(1) << training("transformers", plain_precision())
                               << ranks(1, ""));
      case 1:
        return job_from(Text() << model(1) << training("transformers", "bf16")
                               << ranks(2, "zero: 0"));
      case 2:
        return job_from(Text() << model(1) << training("transformers", "fsdp2-bf16")
                               << ranks(4, "zero: 3, fsdp: {version: 2}"));
      case 3:
        return job_from(Text() << model(1) << training("torchtitan", "")
                               << ranks(2, "context: 2, fsdp: {version: 2}", 2));
      case 4:
        return job_from(Text() << model(1) << training("transformers", "mixed")
                               << ranks(4, "zero: 3"));
      case 5:
        return job_from(
            Text() << model(1)
                   << training("megatron, layers: local, attention: unfused", "megatron")
                   << ranks(2, "tensor: 2", 2));
      default:
        return job_from(
            Text() << model(2)
                   << training("megatron, layers: local, attention: unfused", "megatron", "4")
                   << ranks(1, "pipeline: 2", 2));
    }
  }

  /// What a job of `need` bytes finds: a fifth of that to more than five times as much.
  Bytes room_for(Bytes need) {
    const double share = 0.2 + 1.6 * this->share();
    return Bytes(static_cast<std::int64_t>(need.as_double() * share * one_of(1, 1, 3)));
  }

 private:
  std::string model(int stages) {
    const int head_dim = one_of(32, 64);
    const int kv_heads = one_of(2, 4);
    const int heads = kv_heads * one_of(1, 2);
    return Text() << "model: {family: decoder, layers: " << stages * one_of(1, 2, 4)
                  << ", hidden_size: " << heads * head_dim << ", heads: " << heads
                  << ", kv_heads: " << kv_heads << ", ffn_size: " << heads * head_dim * one_of(2, 4)
                  << ", vocab_size: " << one_of(1024, 5120, 32000)
                  << ", activation: swiglu, norm: rmsnorm, position: rope, max_positions: 2048}\n";
  }

  std::string plain_precision() { return one_of("bf16", "amp-bf16", "fp32", "mixed"); }

  std::string training(const std::string& implementation, const std::string& precision,
                       const std::string& accumulation = "") {
    return Text() << "training: {micro_batch: " << one_of(1, 2, 3, 8)
                  << ", seq_len: " << one_of(64, 256, 1024)
                  << (precision.empty() ? "" : ", precision: " + precision)
                  << ", recompute: " << one_of("none", "none", "full")
                  << ", gradient_accumulation: "
                  << (accumulation.empty() ? one_of("1", "2") : accumulation)
                  << ", implementation: {name: " << implementation << "}}\n";
  }

  static std::string ranks(int data, const std::string& layout, int others = 1) {
    return "parallelism: {data: " + std::to_string(data) + (layout.empty() ? "" : ", " + layout) +
           "}\nhardware: {gpu: h100-sxm-80gb, count: " + std::to_string(data * others) + "}\n";
  }
};

}  // namespace memest::test
