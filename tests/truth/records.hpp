// Recorded measurements, one a line of JSON: a memest spec beside what was measured.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace memest {

struct Record {
  std::string id;
  std::string spec;      ///< JSON text of the spec
  std::string measured;  ///< JSON text of the measurements

  /// A whole number of `measured`, where it was measured.
  [[nodiscard]] std::optional<std::int64_t> number(std::string_view name) const;
  /// A list of whole numbers of `measured`, where it was measured.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> numbers(std::string_view name) const;
};

/// The records of tests/truth/`file`.
std::vector<Record> read_records(const std::string& file);

/// The text of member `name` of the JSON object `text`; empty where it has none.
std::string_view json_member(std::string_view text, std::string_view name);

}  // namespace memest
