#include "reader/hf/config_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace memest::hf {
namespace {

const Value kNoSection{};

std::string quote(std::string_view text) { return "'" + std::string(text) + "'"; }

std::string shown(const Value& value) {
  switch (value.kind) {
    case ValueKind::null:
      return "null";
    case ValueKind::scalar:
      return value.quoted ? '"' + value.text + '"' : value.text;
    case ValueKind::sequence:
      return "a list";
    case ValueKind::mapping:
      return "a mapping";
  }
  return {};
}

template <class Number>
std::optional<Number> parsed(const std::string& text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, number);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return number;
}

}  // namespace

const Value* ConfigReader::find(Keys keys) const {
  for (const std::string_view key : keys) {
    const Value* const value = config_->find(key);
    if (value == nullptr || value->kind == ValueKind::null) continue;
    reading_->used.insert(value);
    return value;
  }
  return nullptr;
}

bool ConfigReader::has(Keys keys) const {
  for (const std::string_view key : keys) {
    const Value* const value = config_->find(key);
    if (value == nullptr) continue;
    reading_->used.insert(value);
    return true;
  }
  return false;
}

ConfigReader ConfigReader::section(std::string_view key) {
  const Value* const value = find({key});
  if (value == nullptr) return {kNoSection, *reading_};
  if (value->kind != ValueKind::mapping) {
    error_at(value->span, quote(key) + " must be a mapping, not " + shown(*value));
    return {kNoSection, *reading_};
  }
  return {*value, *reading_};
}

std::string ConfigReader::written_key(Keys keys) const {
  for (const std::string_view key : keys) {
    if (config_->find(key) != nullptr) return std::string(key);
  }
  return std::string(*keys.begin());
}

void ConfigReader::error_at(const SourceSpan& span, std::string message, std::string hint) {
  Diagnostics& told = reading_->diagnostics;
  const bool again = std::any_of(told.begin(), told.end(), [&](const Diagnostic& other) {
    return other.span.line == span.line && other.span.column == span.column &&
           other.message == message;
  });
  if (again) return;
  told.push_back({Severity::error, span, std::move(message), std::move(hint)});
  ++reading_->errors;
}

void ConfigReader::warning(const Value* value, std::string message, std::string hint) {
  reading_->diagnostics.push_back({Severity::warning,
                                   value == nullptr ? config_->span : value->span,
                                   std::move(message), std::move(hint)});
}

void ConfigReader::error(Keys keys, std::string message, std::string hint) {
  const Value* const value = find(keys);
  error_at(value == nullptr ? config_->span : value->span, std::move(message), std::move(hint));
}

std::optional<std::int64_t> ConfigReader::whole_number_of(const Value& value,
                                                          const std::string& key,
                                                          std::int64_t least) {
  const auto number = value.kind == ValueKind::scalar && !value.quoted
                          ? parsed<std::int64_t>(value.text)
                          : std::nullopt;
  if (!number) {
    error_at(value.span, quote(key) + " must be a whole number, not " + shown(value));
    return std::nullopt;
  }
  if (*number < least) {
    const std::string range = least > 0 ? " must be positive, not " : " must not be negative, not ";
    error_at(value.span, quote(key) + range + value.text);
    return std::nullopt;
  }
  if (*number > kLargestSize) {
    error_at(value.span, quote(key) + " is beyond every model: " + value.text);
    return std::nullopt;
  }
  return number;
}

std::optional<std::int64_t> ConfigReader::whole_number(Keys keys, std::int64_t least) {
  const Value* const value = find(keys);
  if (value == nullptr) return std::nullopt;
  return whole_number_of(*value, written_key(keys), least);
}

std::int64_t ConfigReader::size(Keys keys, std::int64_t fallback) {
  return whole_number(keys, 1).value_or(fallback);
}

std::int64_t ConfigReader::count(Keys keys, std::int64_t fallback) {
  return whole_number(keys, 0).value_or(fallback);
}

std::optional<std::int64_t> ConfigReader::optional_size(Keys keys) { return whole_number(keys, 1); }

std::optional<double> ConfigReader::optional_number(Keys keys) {
  const Value* const value = find(keys);
  if (value == nullptr) return std::nullopt;
  const auto number = value->kind == ValueKind::scalar && !value->quoted
                          ? parsed<double>(value->text)
                          : std::nullopt;
  if (!number || !std::isfinite(*number)) {
    error_at(value->span, quote(written_key(keys)) + " must be a number, not " + shown(*value));
    return std::nullopt;
  }
  return number;
}

double ConfigReader::number(Keys keys, double fallback) {
  return optional_number(keys).value_or(fallback);
}

std::int64_t ConfigReader::scaled_size(Keys keys, double fallback, std::int64_t size) {
  double ratio = number(keys, fallback);
  if (!(ratio > 0 && ratio <= kLargestRatio)) {
    error(keys, quote(written_key(keys)) + " must be positive and no more than a million");
    ratio = fallback;
  }
  return static_cast<std::int64_t>(static_cast<double>(size) * ratio);
}

double ConfigReader::probability(Keys keys, double fallback) {
  const double value = number(keys, fallback);
  if (value >= 0 && value <= 1) return value;
  error(keys, quote(written_key(keys)) + " must lie between 0 and 1");
  return fallback;
}

bool ConfigReader::flag(Keys keys, bool fallback) {
  const Value* const value = find(keys);
  if (value == nullptr) return fallback;
  if (value->kind == ValueKind::scalar && !value->quoted) {
    if (value->text == "true" || value->text == "True") return true;
    if (value->text == "false" || value->text == "False") return false;
  }
  error_at(value->span, quote(written_key(keys)) + " must be true or false, not " + shown(*value));
  return fallback;
}

std::string ConfigReader::word(Keys keys, std::string_view fallback) {
  const Value* const value = find(keys);
  if (value == nullptr) return std::string(fallback);
  if (value->kind == ValueKind::scalar) return value->text;
  error_at(value->span, quote(written_key(keys)) + " must be a word, not " + shown(*value));
  return std::string(fallback);
}

std::vector<std::int64_t> ConfigReader::sizes(Keys keys, std::vector<std::int64_t> fallback) {
  const Value* const value = find(keys);
  if (value == nullptr) return fallback;
  if (value->kind != ValueKind::sequence) {
    error_at(value->span,
             quote(written_key(keys)) + " must be a list of whole numbers, not " + shown(*value));
    return fallback;
  }
  std::vector<std::int64_t> numbers;
  for (const Value& item : value->items) {
    if (const auto number = whole_number_of(item, written_key(keys), 0)) numbers.push_back(*number);
  }
  return numbers.size() == value->items.size() ? numbers : fallback;
}

std::vector<std::string> ConfigReader::words(Keys keys) {
  const Value* const value = find(keys);
  if (value == nullptr) return {};
  std::vector<std::string> result;
  for (const Value& item : value->items) {
    if (item.kind == ValueKind::scalar) result.push_back(item.text);
  }
  if (value->kind != ValueKind::sequence || result.size() != value->items.size()) {
    error_at(value->span,
             quote(written_key(keys)) + " must be a list of words, not " + shown(*value));
    return {};
  }
  return result;
}

}  // namespace memest::hf
