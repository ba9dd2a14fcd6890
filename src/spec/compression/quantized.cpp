#include "memest/spec/compression/quantized.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "memest/diag/expect.hpp"
#include "memest/spec/adapter.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

constexpr std::array kFormats = {
    WeightFormatRow{WeightFormat::nf4, "nf4", 4},
    WeightFormatRow{WeightFormat::fp4, "fp4", 4},
    WeightFormatRow{WeightFormat::int8, "int8", 8},
    WeightFormatRow{WeightFormat::hqq8, "hqq8", 8, CodeLibrary::hqq},
    WeightFormatRow{WeightFormat::hqq4, "hqq4", 4, CodeLibrary::hqq},
    WeightFormatRow{WeightFormat::hqq2, "hqq2", 2, CodeLibrary::hqq},
    WeightFormatRow{WeightFormat::hqq1, "hqq1", 1, CodeLibrary::hqq},
    WeightFormatRow{WeightFormat::torchao_nf4, "torchao-nf4", 4, CodeLibrary::torchao},
};

constexpr std::int64_t kBitsOfByte = 8;
// bitsandbytes/functional.py: quantize_4bit passes blocksize=256 for the scales' own quantization,
// as torchao's to_nf4 has scaler_block_size=256; get_4bit_type has 16 values, create_dynamic_map
// 256.
constexpr std::int64_t kBlockOfScales = 256;
constexpr std::int64_t kValuesOf4bit = 16;
constexpr std::int64_t kValuesOf8bit = 256;

constexpr std::int64_t quotient_up(std::int64_t value, std::int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

/// NF4Tensor's, as from_tensor() makes them: codes of the scales, and scales of blocks of those.
std::vector<StoredTensor> torchao_tensors(const QuantizedWeights& quantized,
                                          const CodedMatrix& weight, DType type) {
  const std::int64_t blocks = weight.elements / quantized.group_size;
  return {{"values", kValuesOf4bit, type},
          {"offset", 1, type},
          {"absmax", blocks, DType::int8},
          {"nested absmax", blocks / kBlockOfScales, type},
          {"codes", weight.elements / 2, DType::uint8}};
}

/// bitsandbytes' QuantState beside the packed weight, or Int8Params' SCB.
std::vector<StoredTensor> bitsandbytes_tensors(const QuantizedWeights& quantized,
                                               const CodedMatrix& weight) {
  const std::int64_t elements = weight.elements;
  if (quantized.format == WeightFormat::int8) {
    return {{"scales", weight.rows, DType::fp32}, {"codes", elements, DType::int8}};
  }
  const std::int64_t blocks = quotient_up(elements, quantized.group_size);
  const std::int64_t codes = quotient_up(elements, 2 * size_of(quantized.storage));
  if (!quantized.double_quant) {
    return {{"absmax", blocks, DType::fp32},
            {"codes", codes, quantized.storage},
            {"values", kValuesOf4bit, DType::fp32}};
  }
  return {{"codes", codes, quantized.storage},
          {"values", kValuesOf4bit, DType::fp32},
          {"offset", 1, DType::fp32},
          {"nested absmax", quotient_up(blocks, kBlockOfScales), DType::fp32},
          {"absmax", blocks, DType::uint8},
          {"nested values", kValuesOf8bit, DType::fp32}};
}

}  // namespace

const WeightFormatRow& row_of(WeightFormat format) {
  return *std::ranges::find(kFormats, format, &WeightFormatRow::format);
}

std::optional<WeightFormat> weight_format_of(std::string_view word) {
  const auto* const found = std::ranges::find(kFormats, word, &WeightFormatRow::word);
  if (found == kFormats.end()) return std::nullopt;
  return found->format;
}

std::optional<DType> code_storage_of(std::string_view word) {
  struct StorageWord {
    std::string_view word;
    DType type;
  };
  constexpr std::array kWords = {
      StorageWord{"uint8", DType::uint8},   StorageWord{"bf16", DType::bf16},
      StorageWord{"bfloat16", DType::bf16}, StorageWord{"fp16", DType::fp16},
      StorageWord{"float16", DType::fp16},  StorageWord{"fp32", DType::fp32},
      StorageWord{"float32", DType::fp32},
  };
  const auto* const found = std::ranges::find(kWords, word, &StorageWord::word);
  if (found == kWords.end()) return std::nullopt;
  return found->type;
}

std::string spec_value_of(const QuantizedWeights& quantized) {
  const WeightFormatRow& format = row_of(quantized.format);
  std::string text = "{weights: " + std::string(format.word);
  if (quantized.double_quant) text += ", double_quant: true";
  if (format.format == WeightFormat::int8 && quantized.threshold != kOutlierThreshold) {
    std::array<char, 32> digits{};
    const auto written =
        std::to_chars(digits.data(), digits.data() + digits.size(), quantized.threshold);
    text += ", threshold: " + std::string(digits.data(), written.ptr);
  }
  if (quantized.storage != DType::uint8) {
    text += ", quant_storage: " + std::string(name_of(quantized.storage));
  }
  if (format.of_hqq()) text += ", group_size: " + std::to_string(quantized.group_size);
  std::string modules;
  for (const std::string& module : quantized.skip_modules) {
    modules += (modules.empty() ? "" : ", ") + module;
  }
  return text + ", skip_modules: [" + modules + "]}";
}

bool quantizes(const QuantizedWeights& quantized, std::string_view module) {
  return std::ranges::none_of(quantized.skip_modules,
                              [module](const std::string& name) { return is_named(module, name); });
}

CodesTogether codes_together(const QuantizedWeights& quantized) {
  const WeightFormatRow& format = row_of(quantized.format);
  switch (format.library) {
    case CodeLibrary::bitsandbytes:
      return {};
    case CodeLibrary::hqq:
      // Quantizer.quantize: W.reshape([-1, group_size]); BitPack lays 8 / bits such rows over
      // another.
      return {kBitsOfByte / format.bits, "HQQ", "bytes", " codes"};
    case CodeLibrary::torchao:
      // double_quantize_scalers: scalers_1.numel() % scaler_block_size == 0
      return {kBlockOfScales, "torchao", "blocks", " scales"};
  }
  unreachable("every library keeps codes");
}

std::vector<StoredTensor> stored_tensors(const QuantizedWeights& quantized,
                                         const CodedMatrix& weight, DType compute) {
  const WeightFormatRow& format = row_of(quantized.format);
  if (format.of_torchao()) return torchao_tensors(quantized, weight, compute);
  if (!format.of_hqq()) return bitsandbytes_tensors(quantized, weight);
  const std::int64_t groups = weight.elements / quantized.group_size;
  return {{"codes", checked_multiply(weight.elements, format.bits) / kBitsOfByte, DType::uint8},
          {"scales", groups, compute},
          {"zeros", groups, compute}};
}

std::vector<StoredTensor> gathered_tensors(const QuantizedWeights& quantized,
                                           const CodedMatrix& weight, DType compute) {
  std::vector<StoredTensor> gathered = stored_tensors(quantized, weight, compute);
  std::erase_if(gathered, [](const StoredTensor& tensor) {
    return tensor.name == "values" || tensor.name == "offset";
  });
  return gathered;
}

std::int64_t stored_bytes(const QuantizedWeights& quantized, const CodedMatrix& weight,
                          DType compute) {
  std::int64_t bytes = 0;
  for (const StoredTensor& tensor : stored_tensors(quantized, weight, compute)) {
    bytes = checked_add(bytes, checked_multiply(tensor.elements, size_of(tensor.dtype)));
  }
  return bytes;
}

}  // namespace memest
