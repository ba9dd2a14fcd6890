// Rows of a table by token, and their gradient: y[t] = table[token[t]]; dtable[token[t]] += dy[t],
// added atomically into fp32, as a training loop with main gradients does. Tokens are drawn evenly
// from kVocabulary.
//
//   forward    2·n·w + 8·rows bytes    no FLOPs
//   backward   n·(w + 8) + 8·rows bytes    n FLOPs
#pragma once

#include <cstdint>

#include "kernels/call.hpp"

namespace memest::kernels {

inline constexpr std::int64_t kVocabulary = 8'192;  ///< rows of the table

void launch_embedding(const Call& call);
void launch_embedding_backward(const Call& call);

}  // namespace memest::kernels
