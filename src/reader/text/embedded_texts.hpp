// Files of the repository that the program carries beside configs/.
#pragma once

#include <string_view>

namespace memest {

/// docs/answer.schema.json.
std::string_view answer_schema_text();

}  // namespace memest
