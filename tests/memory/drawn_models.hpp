// Small decoders drawn at random, for properties of what shards them.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "jobs.hpp"

namespace memest::testing {

/// One of several values, the same with every standard library.
class Drawer {
 public:
  explicit Drawer(std::mt19937& random) : random_(&random) {}

  std::int64_t operator()(const std::vector<std::int64_t>& from) const {
    return from[(*random_)() % from.size()];
  }

 private:
  std::mt19937* random_;
};

/// Of 1 to 5 layers; a vocabulary that ranks divide or not, tied embeddings or not.
inline ModelSpec drawn_llama(const Drawer& draw) {
  // Arguments of one call would be drawn in an order of the compiler's choice.
  const std::int64_t layers = draw({1, 2, 5});
  const std::int64_t heads = draw({2, 4, 8});
  const std::int64_t kv_heads = heads / draw({1, 2});
  const std::int64_t ffn_size = 32 * draw({5, 8, 11});
  ModelSpec model = llama(layers, 64 * heads, heads, kv_heads, ffn_size);
  auto& decoder = std::get<DecoderSpec>(model.architecture);
  decoder.vocab_size = draw({1000, 1003, 32000});
  decoder.tied_embeddings = draw({0, 1}) == 1;
  return model;
}

}  // namespace memest::testing
