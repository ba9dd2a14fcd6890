// Weights become codes on the device, one after the other.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "memest/graph/kernel_scratch.hpp"
#include "memest/spec/compression/quantized.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

/// Bytes that the library keeps for all weights together.
std::int64_t bytes_of_process(const QuantizedWeights& quantized);

/// Bytes of the codes alone, without scales.
std::int64_t bytes_of_codes(const QuantizedWeights& quantized, const CodedMatrix& weight);

class CodePlacement {
 public:
  /// `type`: of the weights as they come; an absent `device`'s kernels take no scratch.
  CodePlacement(QuantizedWeights quantized, DType type, std::optional<LaunchDevice> device)
      : quantized_(std::move(quantized)), type_(type), device_(device) {}

  /// Codes are made from copies in fp16 (lightning's BitsandbytesPrecision).
  void take_fp16() { takes_fp16_ = true; }

  /// HQQ's.
  [[nodiscard]] bool come_from_host() const { return row_of(quantized_.format).of_hqq(); }
  /// Whether the codes say the type of the weights that they stand for: Params4bit's do.
  [[nodiscard]] bool know_their_type() const {
    return !come_from_host() && quantized_.format != WeightFormat::int8;
  }
  [[nodiscard]] const QuantizedWeights& quantized() const { return quantized_; }

  struct CopiedLayer {
    std::int64_t elements = 0;
    std::int64_t bias_bytes = 0;
  };
  /// A copy of the layer, and the weight made from it.
  [[nodiscard]] HeldVector dequantize_copy(const CopiedLayer& layer, const Label& label,
                                           Recorder& recorder) const;
  /// Makes the tensors that stand for a weight.
  void place(const CodedMatrix& weight, const Label& label, Recorder& recorder);
  /// As above, of four bits by bitsandbytes: the caller's.
  HeldVector quantize(const CodedMatrix& matrix, const Label& label, Recorder& recorder);
  /// The codes that torchao makes of a weight that the caller has on the device: the caller's.
  HeldVector make_nf4(const CodedMatrix& weight, const Label& label, Recorder& recorder) const;
  /// The weight that those stand for.
  HeldStorage make_original(const CodedMatrix& weight, const Label& label,
                            Recorder& recorder) const;

 private:
  void quantize_rows(const CodedMatrix& weight, const Label& label, Recorder& recorder) const;
  void take_mean(std::int64_t blocks, const Label& label, Recorder& recorder) const;

  QuantizedWeights quantized_;
  DType type_;
  std::optional<LaunchDevice> device_;
  bool has_map_ = false;
  bool takes_fp16_ = false;
};

}  // namespace memest
