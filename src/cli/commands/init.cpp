#include "cli/command.hpp"
#include "memest/reader/schema.hpp"

namespace memest {

Outcome run_init(const Arguments&, const Surroundings&) {
  return {ExitCode::yes, starter_spec(), {}};
}

}  // namespace memest
