// JSON of every answer: keys in the order of the documentation, bytes and FLOPs whole, what is not
// available null with "KEY_unavailable" beside it.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>

#include "memest/graph/graph.hpp"
#include "memest/report/report.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

using Json = nlohmann::ordered_json;

/// `{"format_version": 1}`, to which an answer adds its keys.
inline Json new_answer() { return Json{{"format_version", kFormatVersion}}; }

/// Names of files may be any bytes: what is no UTF-8 in them becomes U+FFFD.
inline std::string printed(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}
inline std::string text_of(const Json& answer) { return printed(answer, 2) + "\n"; }

/// The answer that `write` makes, where the question asks for one.
template <class Write>
std::string text_for(const Question& question, const Write& write) {
  return question.with_json ? text_of(write()) : std::string();
}

inline void put_null(Json& object, const std::string& key, const std::string& sentence) {
  object[key] = nullptr;
  object[key + "_unavailable"] = sentence;
}

/// The value that `write` makes of what is there, or null and the sentence.
template <class T, class Write>
void put(Json& object, const std::string& key, const std::variant<T, Unavailable>& value,
         const Write& write) {
  if (const auto* missing = std::get_if<Unavailable>(&value)) {
    put_null(object, key, missing->sentence);
  } else {
    object[key] = write(std::get<T>(value));
  }
}

inline void put(Json& object, const std::string& key, Bytes bytes) { object[key] = bytes.value(); }

inline void put(Json& object, const std::string& key, double number) { object[key] = number; }

inline void put(Json& object, const std::string& key, Flops flops) {
  if (flops.value() > static_cast<Int128>(std::numeric_limits<std::uint64_t>::max())) {
    put_null(object, key, "the count is beyond 2^64, which JSON readers do not keep exactly");
  } else {
    object[key] = static_cast<std::uint64_t>(flops.value());
  }
}

}  // namespace memest
