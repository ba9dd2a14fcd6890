// Small decoders drawn at random, for properties of what shards them.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "jobs.hpp"

namespace memest::testing {

/// One of several values.
class Drawer {
 public:
  explicit Drawer(std::mt19937& random) : random_(&random) {}

  std::int64_t operator()(const std::vector<std::int64_t>& from) const {
    return from[std::uniform_int_distribution<std::size_t>(0, from.size() - 1)(*random_)];
  }

 private:
  std::mt19937* random_;
};

/// Of 1 to 5 layers; a vocabulary that ranks divide or not, tied embeddings or not.
inline ModelSpec drawn_llama(const Drawer& draw) {
  const std::int64_t heads = draw({2, 4, 8});
  ModelSpec model =
      llama(draw({1, 2, 5}), 64 * heads, heads, heads / draw({1, 2}), 32 * draw({5, 8, 11}));
  auto& decoder = std::get<DecoderSpec>(model.architecture);
  decoder.vocab_size = draw({1000, 1003, 32000});
  decoder.tied_embeddings = draw({0, 1}) == 1;
  return model;
}

}  // namespace memest::testing
