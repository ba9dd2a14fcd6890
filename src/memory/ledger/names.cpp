#include "memest/diag/expect.hpp"
#include "memest/memory/ledger.hpp"

namespace memest {

std::string_view name_of(TermGroup group) {
  switch (group) {
    case TermGroup::weights:
      return "weights";
    case TermGroup::gradients:
      return "gradients";
    case TermGroup::optimizer:
      return "optimizer";
    case TermGroup::activations:
      return "activations";
    case TermGroup::buffers:
      return "buffers";
    case TermGroup::overhead:
      return "overhead";
  }
  unreachable("every term group has a name");
}

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::fits:
      return "fits";
    case Verdict::does_not_fit:
      return "does-not-fit";
    case Verdict::too_close_to_call:
      return "too-close-to-call";
  }
  unreachable("every verdict has a name");
}

}  // namespace memest
