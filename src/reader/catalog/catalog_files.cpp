#include "reader/catalog/catalog_files.hpp"

#include <array>
#include <utility>

#include "reader/keys/check.hpp"
#include "reader/text/embedded_trees.hpp"
#include "reader/text/scalar.hpp"

namespace memest {

Value read_embedded(std::string_view path) {
  const EmbeddedFile* embedded = find_embedded(path);
  expect(embedded != nullptr, "an embedded file that is not there");
  return embedded_value(*embedded, "configs/" + std::string(path));
}

Diagnostics faults_of_embedded(std::string_view path, std::span<const Key> keys) {
  const Value file = read_embedded(path);
  Diagnostics faults;
  check_table(file, keys, file.span, faults);
  return faults;
}

Checked<Value> find_in_catalog(std::string_view folder, const std::string& name) {
  const std::string path = std::string(folder) + "/" + name + ".yaml";
  if (find_embedded(path) != nullptr) return read_embedded(path);
  const std::string kind(folder.substr(0, folder.size() - 1));
  const std::string hint = suggestion(name, catalog_names(folder));
  return error_at({}, "unknown " + kind + " " + quote(name),
                  hint.empty() ? "`memest " + std::string(folder) + "` lists what is known" : hint);
}

std::string text_at(const Value& table, std::string_view key) {
  return as_text(table.find(key)).value_or("");
}

bool flag_at(const Value& table, std::string_view key) {
  return as_flag(table.find(key)).value_or(false);
}

std::int64_t count_at(const Value& table, std::string_view key) {
  return as_count(table.find(key)).value_or(0);
}

std::optional<DType> type_at(const Value& table, std::string_view key) {
  static constexpr std::array kTypes = {DType::fp32,  DType::bf16,   DType::fp16,  DType::fp8,
                                        DType::fp64,  DType::int64,  DType::int32, DType::int8,
                                        DType::uint8, DType::boolean};
  const std::string name = text_at(table, key);
  for (const DType type : kTypes) {
    if (name_of(type) == name) return type;
  }
  return std::nullopt;
}

}  // namespace memest
