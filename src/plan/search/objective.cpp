#include "memest/plan/objective.hpp"

#include "memest/diag/expect.hpp"

namespace memest {

std::string_view name_of(Objective objective) {
  switch (objective) {
    case Objective::money:
      return "money";
    case Objective::time:
      return "time";
    case Objective::memory:
      return "memory";
    case Objective::gpus:
      return "gpus";
  }
  unreachable("every objective has a name");
}

std::string_view name_of(Growth growth) {
  switch (growth) {
    case Growth::micro_batch:
      return "micro-batch";
    case Growth::sequence:
      return "sequence";
    case Growth::model:
      return "model";
  }
  unreachable("everything that grows has a name");
}

}  // namespace memest
