#include "memest/diag/expect.hpp"

#include <string>
#include <string_view>

namespace memest {
namespace {

/// File name without its folders: where a build happened says nothing about the bug.
std::string_view file_name(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1);
}

}  // namespace

void unreachable(const char* sentence, std::source_location place) {
  throw InternalError(std::string(sentence) + " (" + std::string(file_name(place.file_name())) +
                      ":" + std::to_string(place.line()) + ")");
}

}  // namespace memest
