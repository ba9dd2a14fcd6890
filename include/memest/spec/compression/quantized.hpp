// Weights kept in fewer bits than they are computed in: frozen codes, and the scales of blocks of
// them. bitsandbytes 0.50, HQQ 0.2.8 and torchao 0.13 keep them so.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memest/spec/dtype.hpp"

namespace memest {

enum class WeightFormat : std::uint8_t {
  nf4,   ///< bitsandbytes: quantiles of a normal distribution
  fp4,   ///< bitsandbytes: four-bit floats
  int8,  ///< bitsandbytes: LLM.int8(), integers with a scale a row, multiplied as they are
  hqq8,  ///< HQQ: integers, a scale and a zero point a group
  hqq4,
  hqq2,
  hqq1,
  torchao_nf4  ///< torchao's NF4Tensor, under torchtune: its scales are always codes too
};

enum class CodeLibrary : std::uint8_t { bitsandbytes, hqq, torchao };

/// A format as its library has it.
struct WeightFormatRow {
  WeightFormat format = WeightFormat::nf4;
  std::string_view word;  ///< in a spec
  std::int64_t bits = 4;  ///< of a code
  CodeLibrary library = CodeLibrary::bitsandbytes;

  [[nodiscard]] bool of_hqq() const { return library == CodeLibrary::hqq; }
  [[nodiscard]] bool of_torchao() const { return library == CodeLibrary::torchao; }
  /// bitsandbytes' Params4bit.
  [[nodiscard]] bool in_params_4bit() const {
    return library == CodeLibrary::bitsandbytes && bits == 4;
  }
};
const WeightFormatRow& row_of(WeightFormat format);
/// Absent where no format has that name.
std::optional<WeightFormat> weight_format_of(std::string_view word);

/// A type that codes of 4 bits are packed in, by its word in a spec ("bf16") or PyTorch's
/// ("bfloat16"). Absent where no type has that name.
std::optional<DType> code_storage_of(std::string_view word);

/// BitsAndBytesConfig's llm_int8_threshold where nothing is written.
inline constexpr double kOutlierThreshold = 6;

/// The linear layers whose weights are codes, and of which kind.
struct QuantizedWeights {
  WeightFormat format = WeightFormat::nf4;
  bool double_quant = true;  ///< bitsandbytes: the scales are 8-bit codes with scales of theirs
  /// Type of the elements that codes of 4 bits are packed in (bnb_4bit_quant_storage).
  DType storage = DType::uint8;
  std::int64_t group_size = 64;  ///< codes that share a scale; of nf4 and fp4 always 64
  /// Columns of an input with a magnitude from here on are outliers to int8, multiplied in the
  /// input's type; 0: none are looked for.
  double threshold = kOutlierThreshold;
  std::vector<std::string> skip_modules = {"lm_head"};  ///< stay whole, by the end of their names

  /// Whether FSDP2 cuts the codes. torchao's tensors say how (NF4Tensor.fsdp_pre_all_gather); of
  /// bitsandbytes' accelerate has it ignore those in integers, which stay whole on every rank
  /// (1.15, fsdp2_prepare_model: incompatible_params4bit).
  [[nodiscard]] bool in_shards() const {
    return row_of(format).of_torchao() || storage != DType::uint8;
  }

  bool operator==(const QuantizedWeights&) const = default;
};

/// As `compression.quantize` takes it: "{weights: hqq4, group_size: 64, skip_modules: [lm_head]}".
std::string spec_value_of(const QuantizedWeights& quantized);

/// Whether the weights of `module` ("self_attn.q_proj") are codes.
bool quantizes(const QuantizedWeights& quantized, std::string_view module);

/// The groups of codes of which a weight has a whole number, as an error says it.
struct CodesTogether {
  std::int64_t groups = 1;
  std::string_view library = {};
  std::string_view unit = {};  ///< "bytes"
  std::string_view of = {};    ///< " codes", behind the number
};
/// HQQ packs the codes of 8 / bits groups in the same bytes, torchao quantises the scales of 256
/// groups together; bitsandbytes leaves the last group short.
CodesTogether codes_together(const QuantizedWeights& quantized);

/// One of the tensors that stand for a weight.
struct StoredTensor {
  std::string_view name;  ///< a literal: "codes", "absmax"
  std::int64_t elements = 0;
  DType dtype = DType::uint8;
};

/// A weight that codes stand for.
struct CodedMatrix {
  std::int64_t elements = 0;
  std::int64_t rows = 0;  ///< channels of its result
};

/// The tensors that stand for a weight, in the order in which they are made; scales that HQQ and
/// torchao keep are of type `compute`. For LLaMA's q_proj, 4096 by 4096 in nf4: 8 MiB of codes, 16
/// floats of their values, an offset, 1,024 floats, 262,144 B of absmax and its 256 values; in
/// int8: 4,096 floats and 16 MiB.
std::vector<StoredTensor> stored_tensors(const QuantizedWeights& quantized,
                                         const CodedMatrix& weight, DType compute);
/// Those of them that FSDP2 cuts and gathers of torchao's, as NF4Tensor.fsdp_pre_all_gather lists
/// them: codes of the scales, their scales, codes.
std::vector<StoredTensor> gathered_tensors(const QuantizedWeights& quantized,
                                           const CodedMatrix& weight, DType compute);
/// Bytes of those that stand for a weight.
std::int64_t stored_bytes(const QuantizedWeights& quantized, const CodedMatrix& weight,
                          DType compute);

}  // namespace memest
