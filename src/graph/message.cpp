#include "memest/graph/message.hpp"

#include "memest/diag/expect.hpp"

namespace memest {

std::string_view name_of(MessageKind kind) {
  switch (kind) {
    case MessageKind::all_reduce:
      return "all_reduce";
    case MessageKind::all_gather:
      return "all_gather";
    case MessageKind::reduce_scatter:
      return "reduce_scatter";
    case MessageKind::all_to_all:
      return "all_to_all";
    case MessageKind::send:
      return "send";
    case MessageKind::dispatch:
      return "dispatch";
    case MessageKind::combine:
      return "combine";
  }
  unreachable("every kind of message has a name");
}

std::string_view name_of(RankGroup group) {
  switch (group) {
    case RankGroup::tensor:
      return "tensor";
    case RankGroup::context:
      return "context";
    case RankGroup::expert:
      return "expert";
    case RankGroup::data:
      return "data";
    case RankGroup::pipeline:
      return "pipeline";
  }
  unreachable("every group of ranks has a name");
}

}  // namespace memest
