#include "reader/frameworks/quantization_config.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>
#include <vector>

#include "reader/text/scalar.hpp"

namespace memest {
namespace {

/// Whether modules are called so; no other name can be one's.
bool names_modules(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char sign) {
    return std::isalnum(sign) != 0 || sign == '_' || sign == '.';
  });
}

/// The names of a list, or `usual` where there is none.
std::vector<std::string> names_in(const Value* list, std::vector<std::string> usual) {
  if (list == nullptr || list->kind != ValueKind::sequence) return usual;
  std::vector<std::string> names;
  for (const Value& name : list->items) {
    const auto text = as_text(&name);
    if (text && names_modules(*text)) names.push_back(*text);
  }
  return names;
}

/// transformers 5.17, BitsAndBytesConfig.
std::optional<QuantizedWeights> by_bitsandbytes(const Value& written) {
  QuantizedWeights quantized;
  const bool eight = as_flag(written.find("load_in_8bit")).value_or(false);
  if (!eight && !as_flag(written.find("load_in_4bit")).value_or(false)) return std::nullopt;
  // Weights that stay in fp16 are trained, and quantised in every forward.
  if (eight && as_flag(written.find("llm_int8_has_fp16_weight")).value_or(false)) {
    return std::nullopt;
  }
  const std::string type = as_text(written.find("bnb_4bit_quant_type")).value_or("fp4");
  quantized.format = type == "nf4" ? WeightFormat::nf4 : WeightFormat::fp4;
  quantized.double_quant =
      !eight && as_flag(written.find("bnb_4bit_use_double_quant")).value_or(false);
  if (!eight) {
    const std::string storage = as_text(written.find("bnb_4bit_quant_storage")).value_or("uint8");
    quantized.storage = code_storage_of(storage).value_or(DType::uint8);
  }
  if (eight) {
    quantized.format = WeightFormat::int8;
    quantized.threshold =
        as_number(written.find("llm_int8_threshold")).value_or(quantized.threshold);
  }
  quantized.skip_modules =
      names_in(written.find("llm_int8_skip_modules"), std::move(quantized.skip_modules));
  return quantized;
}

/// transformers 5.17, HqqConfig, of one setting for all modules.
std::optional<QuantizedWeights> by_hqq(const Value& written) {
  const Value* config = written.find("quant_config");
  const Value* weights = config == nullptr ? nullptr : config->find("weight_quant_params");
  if (weights == nullptr || as_count(weights->find("axis")).value_or(1) != 1) return std::nullopt;
  const std::int64_t bits = as_count(weights->find("nbits")).value_or(4);
  const auto format = weight_format_of("hqq" + std::to_string(bits));
  const auto group_size = as_count(weights->find("group_size"));
  if (!format || !group_size) return std::nullopt;
  QuantizedWeights quantized;
  quantized.format = *format;
  quantized.double_quant = false;
  quantized.group_size = *group_size;
  quantized.skip_modules =
      names_in(written.find("skip_modules"), std::move(quantized.skip_modules));
  return quantized;
}

/// `quant_method`; configs older than the key name bitsandbytes by its own keys, as transformers'
/// AutoQuantizationConfig.from_dict reads them.
std::optional<std::string> method_of(const Value& written) {
  for (const char* key : {"load_in_4bit", "load_in_8bit"}) {
    if (as_flag(written.find(key)).value_or(false)) return "bitsandbytes";
  }
  return as_text(written.find("quant_method"));
}

}  // namespace

std::optional<QuantizedWeights> quantized_by(const Value& config, Diagnostics& diagnostics) {
  const Value* written = config.find("quantization_config");
  const auto method = written == nullptr ? std::nullopt : method_of(*written);
  if (!method) return std::nullopt;
  std::optional<QuantizedWeights> quantized;
  if (*method == "bitsandbytes") quantized = by_bitsandbytes(*written);
  if (*method == "hqq") quantized = by_hqq(*written);
  if (!quantized) {
    Diagnostic warning = error_at(
        written->span,
        "weights quantised by '" + *method + "' in this way are not followed: they count whole",
        "those that are: 'compression: {quantize: {weights: nf4}}'");
    warning.severity = Severity::warning;
    diagnostics.push_back(std::move(warning));
  }
  return quantized;
}

}  // namespace memest
