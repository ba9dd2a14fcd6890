#include "reader/text/value.hpp"

namespace memest {

const Value* Value::find(std::string_view key) const {
  for (const Member& member : members) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

}  // namespace memest
