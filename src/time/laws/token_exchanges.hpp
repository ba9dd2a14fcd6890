// Times of DeepEP's kernels, which send a token once to each rank of its experts (Hybrid-EP).
#pragma once

#include <cstdint>
#include <optional>

#include "memest/time/links.hpp"

namespace memest {

/// A dispatch or combine within one NVLink domain of `ranks`, each of which has `received` bytes,
/// its own tokens' among them; nothing where no kernel was published for such GPUs.
std::optional<CallPrice> price_of_token_links(const TokenLinks& links, MessageKind kind,
                                              std::int64_t ranks, double received);

/// Its part between `nodes`, of which a rank's tokens go to some: `sent` bytes, those that stay
/// among them. One card a GPU.
CallPrice price_of_token_network(const Network& network, MessageKind kind, std::int64_t nodes,
                                 double sent);

}  // namespace memest
