#include "memest/reader/schema.hpp"

#include "cli/command.hpp"

namespace memest {

Outcome run_schema(const Arguments&, const Surroundings&) {
  return {ExitCode::yes, json_schema(), {}};
}

}  // namespace memest
