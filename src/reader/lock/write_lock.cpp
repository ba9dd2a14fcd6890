#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "memest/reader/lock.hpp"
#include "reader/lock/lock_words.hpp"

namespace memest {
namespace {

constexpr std::string_view kLockHead =
    "# What each spec needed when `memest check --update` wrote this file; `memest check` holds "
    "the\n"
    "# specs to it. Bytes, FLOPs and counts are exact, seconds and USD within the tolerance.\n";

constexpr std::string_view kPlainSigns =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-+% ";

bool is_alphanumeric(char sign) {
  return kPlainSigns.substr(0, 62).find(sign) != std::string::npos;
}

/// Whether YAML reads the word back as it is, without quotes; its null is none.
bool is_plain(std::string_view word) {
  if (word.empty() || !is_alphanumeric(word.front()) || word.back() == ' ') return false;
  for (const std::string_view null : {"null", "Null", "NULL"}) {
    if (word == null) return false;
  }
  return word.find_first_not_of(kPlainSigns) == std::string_view::npos;
}

void append_escaped(std::string& out, char sign) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(sign);
  if (sign == '"' || sign == '\\') {
    out += '\\';
    out += sign;
  } else if (byte < 0x20U || byte == 0x7FU) {
    out += "\\x";
    out += kDigits[byte / 16U];
    out += kDigits[byte % 16U];
  } else {
    out += sign;
  }
}

std::string yaml_word(std::string_view text) {
  if (is_plain(text)) return std::string(text);
  std::string quoted = "\"";
  for (const char sign : text) append_escaped(quoted, sign);
  return quoted + '"';
}

std::string decimal(double value) {
  std::array<char, 64> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), end.ptr};
}

struct ValueText {
  std::string operator()(std::int64_t count) const { return std::to_string(count); }
  std::string operator()(Bytes bytes) const { return std::to_string(bytes.value()) + " B"; }
  std::string operator()(Flops flops) const { return to_string(flops.value()) + " FLOP"; }
  std::string operator()(Seconds time) const { return decimal(time.value()) + " s"; }
  std::string operator()(Dollars money) const { return decimal(money.value()) + " USD"; }
};

void append_line(std::string& out, std::string_view name, std::string_view value) {
  out += "      " + yaml_word(name) + ": " + yaml_word(value) + "\n";
}

/// "    figures:", its lines in the order given.
template <class Rows, class Append>
void append_table(std::string& out, std::string_view title, const Rows& rows,
                  const Append& append) {
  out += "    " + std::string(title) + ":" + (rows.empty() ? " {}" : "") + "\n";
  for (const auto& row : rows) append(row);
}

void append_spec(std::string& out, const std::string& path, const LockedSpec& spec) {
  out += "  " + yaml_word(path) + ":\n";
  append_table(out, kRestsOnKey, spec.rests_on,
               [&](const RestsOn& row) { append_line(out, row.name, row.digest); });
  append_table(out, kKeysKey, spec.keys,
               [&](const SpecLeaf& row) { append_line(out, row.key, row.value); });
  const auto append_figure = [&](const LockedFigure& row) {
    append_line(out, row.name, std::visit(ValueText{}, row.value));
  };
  append_table(out, kFiguresKey, spec.figures, append_figure);
  append_table(out, kTermsKey, spec.terms, append_figure);
}

}  // namespace

std::string write_lock(const Lock& lock) {
  std::string out(kLockHead);
  out += std::string(kFormatKey) + ": " + std::to_string(kLockFormat) + "\n";
  out += std::string(kToleranceKey) + ": " + decimal(lock.tolerance * 100) + " %\n";
  out += std::string(kSpecsKey) + ":" + (lock.specs.empty() ? " {}" : "") + "\n";
  for (const auto& [path, spec] : lock.specs) append_spec(out, path, spec);
  return out;
}

}  // namespace memest
