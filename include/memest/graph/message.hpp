// Messages that ranks sharing a model's layers exchange while an operation runs. The messages of
// data parallelism and between the stages of a pipeline belong to the step, not to an operation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "memest/graph/token_routing.hpp"
#include "memest/symbolic/expr.hpp"

namespace memest {

enum class MessageKind : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  send,      ///< one rank to its neighbour, as a ring does, and receiving as much
  dispatch,  ///< tokens to the ranks of their experts, one copy for each rank
  combine    ///< the sums over a rank's experts, back to the tokens' rank
};
/// "all_reduce", "all_gather", ...
std::string_view name_of(MessageKind kind);

/// The ranks that a message goes between.
enum class RankGroup : std::uint8_t { tensor, context, expert, data, pipeline };
/// "tensor", "context", ...
std::string_view name_of(RankGroup group);

struct Message {
  MessageKind kind = MessageKind::all_reduce;
  RankGroup group = RankGroup::tensor;
  Expr bytes;  ///< the whole buffer, as nccl-tests counts it: all that is gathered or scattered; of
               ///< a `send` what one rank sends; of `dispatch` and `combine` one rank's tokens
  /// Runs beside a kernel of its pass, which waits for it at the end only: the last of a pass's
  /// asynchronous messages beside its last kernel, the one before beside the kernel before.
  bool asynchronous = false;
  std::int64_t times = 1;     ///< so many of them, one after another
  TokenRouting routing = {};  ///< of `dispatch` and `combine`

  friend bool operator==(const Message&, const Message&) = default;
};

/// Whether one of them goes between the ranks of `group`.
inline bool reach(const std::vector<Message>& messages, RankGroup group) {
  return std::ranges::any_of(messages, [group](const Message& one) { return one.group == group; });
}

}  // namespace memest
