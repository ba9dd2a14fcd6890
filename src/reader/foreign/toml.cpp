#include "reader/foreign/toml.hpp"

namespace memest {

/// Something that the library takes for granted and the text does not give.
struct TomlFault {};
[[noreturn]] static void refuse_toml() { throw TomlFault{}; }

}  // namespace memest

// The library's code is compiled here: nothing of it is linked. It asserts what a malformed text
// may break (a line of "= 1" behind a blank), or in a release build lets the compiler assume it:
// here both are refusals.
#undef NDEBUG
#define TOML_ASSERT(expression) ((expression) ? void() : ::memest::refuse_toml())
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reader/text/text.hpp"

namespace memest {
namespace {

/// Places of toml++, which counts the code points of a line, as places in bytes.
class TomlPlaces {
 public:
  explicit TomlPlaces(const SourcePointer& source) : lines_(source), text_(source->text) {
    starts_.push_back(0);
    for (std::size_t end = text_.find('\n'); end != std::string_view::npos;
         end = text_.find('\n', end + 1)) {
      starts_.push_back(end + 1);
    }
  }

  [[nodiscard]] SourceSpan span(const toml::source_region& region) const {
    const std::size_t begin = offset(region.begin);
    const std::size_t end = std::max(offset(region.end), begin + 1);
    return lines_.span(begin, end - begin);
  }

  [[nodiscard]] std::string written(const toml::source_region& region) const {
    const std::size_t begin = offset(region.begin);
    return std::string(text_.substr(begin, offset(region.end) - begin));
  }

 private:
  [[nodiscard]] std::size_t offset(const toml::source_position& position) const {
    if (position.line == 0 || position.line > starts_.size()) return text_.size();
    std::size_t at = starts_[position.line - 1];
    for (toml::source_index column = 1; column < position.column && at < text_.size(); ++column) {
      at += std::max<std::size_t>(utf8_length(text_.substr(at, 4)), 1);
    }
    return std::min(at, text_.size());
  }

  LineIndex lines_;
  std::string_view text_;
  std::vector<std::size_t> starts_;
};

/// The shortest text that reads back to the number.
std::string text_of_number(double number) {
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr;
  return {buffer.data(), end};
}

class TomlBuilder {
 public:
  explicit TomlBuilder(const TomlPlaces& places) : places_(places) {}

  Value build(const toml::node& node) {
    ++values_;
    Value value;
    value.span = places_.span(node.source());
    if (const toml::table* table = node.as_table()) {
      add_members(*table, value);
    } else if (const toml::array* array = node.as_array()) {
      value.kind = ValueKind::sequence;
      for (const toml::node& item : *array) value.items.push_back(build(item));
    } else {
      value.kind = ValueKind::scalar;
      set_text(node, value);
    }
    return value;
  }

  [[nodiscard]] bool is_too_large() const { return values_ > kMaxValues; }

 private:
  void add_members(const toml::table& table, Value& value) {
    value.kind = ValueKind::mapping;
    for (const auto& [key, node] : table) {
      value.members.push_back({std::string(key.str()), places_.span(key.source()), build(node)});
    }
    std::ranges::stable_sort(value.members, {}, [](const Member& member) {
      return std::pair(member.key_span.line, member.key_span.column);
    });
  }

  void set_text(const toml::node& node, Value& value) const {
    if (const auto* text = node.as_string()) {
      value.text = text->get();
      value.quoted = true;
    } else if (const auto* flag = node.as_boolean()) {
      value.text = flag->get() ? "true" : "false";
    } else if (const auto* integer = node.as_integer()) {
      value.text = std::to_string(integer->get());
    } else if (const auto* number = node.as_floating_point()) {
      value.text = text_of_number(number->get());
    } else {
      value.text = places_.written(node.source());  // a date or a time
      value.quoted = true;
    }
  }

  const TomlPlaces& places_;
  std::size_t values_ = 0;
};

}  // namespace

Checked<Value> parse_toml(const SourcePointer& source) {
  const LineIndex lines(source);
  if (std::optional<Diagnostic> fault = find_text_fault(lines)) return *std::move(fault);
  const TomlPlaces places(source);
  try {
    const toml::table root = toml::parse(source->text);
    TomlBuilder builder(places);
    Value value = builder.build(root);
    value.span = {source, 0, 0, 0};
    if (!builder.is_too_large()) return value;
    return Diagnostic{Severity::error,
                      {source, 0, 0, 0},
                      "more than " + std::to_string(kMaxValues) + " values",
                      ""};
  } catch (const TomlFault&) {
    return Diagnostic{
        Severity::error, {source, 0, 0, 0}, "this is not TOML", "a key has a name before its '='"};
  } catch (const toml::parse_error& error) {
    return Diagnostic{Severity::error, places.span(error.source()),
                      "this is not TOML: " + std::string(error.description()), ""};
  }
}

}  // namespace memest
