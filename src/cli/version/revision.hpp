// The commit that the sources stand at. Its definition is written when the repository's log grows,
// so that a commit compiles one small file anew.
#pragma once

#include <string_view>

namespace memest {

/// Empty where the sources came without their repository.
std::string_view revision();

}  // namespace memest
