// Python's pickle format as plain data: numbers, texts, lists, tuples and dictionaries. Codes that
// build anything else, by which a pickle runs a program, are refused by name and place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "memest/diag/diagnostic.hpp"

namespace memest {

enum class PickleKind : std::uint8_t { none, boolean, integer, real, text, list, tuple, dict };

/// A pickle's values. One that is recalled is the same value in several places.
class Pickle {
 public:
  /// Index of a value.
  using Id = std::uint32_t;

  /// Reads protocols 0 to 5, as far as their codes are those of plain data. The values live as long
  /// as `source`.
  static Checked<Pickle> read(const std::shared_ptr<const SourceText>& source);

  [[nodiscard]] Id root() const { return root_; }
  [[nodiscard]] PickleKind kind(Id id) const { return nodes_[id].kind; }
  [[nodiscard]] std::optional<std::int64_t> integer(Id id) const;
  [[nodiscard]] std::optional<double> real(Id id) const;
  [[nodiscard]] std::optional<std::string_view> text(Id id) const;
  /// Items of a list or tuple; of a dictionary key, value, key, value, ...; none of all else.
  [[nodiscard]] const std::vector<Id>& items(Id id) const;
  /// The value of a dictionary's key, the last that was set; none where there is no such key.
  [[nodiscard]] std::optional<Id> find(Id dict, std::string_view key) const;

 private:
  friend class PickleReader;

  struct Node {
    PickleKind kind = PickleKind::none;
    std::uint32_t size = 0;  ///< bytes of a text
    union {
      std::int64_t integer = 0;
      double real;
      const char* text;
      std::size_t items;  ///< index into `items_`
    };
  };

  std::shared_ptr<const SourceText> source_;
  std::vector<Node> nodes_;
  std::vector<std::vector<Id>> items_;
  Id root_ = 0;
};

}  // namespace memest
