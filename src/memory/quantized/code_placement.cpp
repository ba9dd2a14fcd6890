#include "memory/quantized/code_placement.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "memest/units/int128.hpp"
#include "memory/quantized/nf4_tensor.hpp"

namespace memest {
namespace {

// name2qmap["dynamic"] (bitsandbytes/functional.py): 256 values in fp32, made for the first weight.
constexpr std::int64_t kMapBytes = 1024;
constexpr std::int64_t kFp32 = size_of(DType::fp32);

std::int64_t bytes_of(const StoredTensor& tensor) {
  return checked_multiply(tensor.elements, size_of(tensor.dtype));
}

}  // namespace

std::int64_t bytes_of_process(const QuantizedWeights& quantized) {
  const bool codes_scales = row_of(quantized.format).in_params_4bit();
  return codes_scales && quantized.double_quant ? kMapBytes : 0;
}

std::int64_t bytes_of_codes(const QuantizedWeights& quantized, const CodedMatrix& weight) {
  const auto stored = stored_tensors(quantized, weight, DType::fp32);
  return bytes_of(*std::ranges::find(stored, "codes", &StoredTensor::name));
}

void CodePlacement::place(const CodedMatrix& weight, const Label& label, Recorder& recorder) {
  if (quantized_.format == WeightFormat::int8) return quantize_rows(weight, label, recorder);
  if (!come_from_host()) {
    for (HeldStorage& kept : quantize(weight, label, recorder)) kept.give_up();
    return;
  }
  // HQQLinear.cuda sends codes that the host has made.
  for (const StoredTensor& tensor : stored_tensors(quantized_, weight, type_)) {
    recorder.allocate(bytes_of(tensor), label);
  }
}

/// Bnb8bitQuantize.convert (transformers 5.17) has the weight on the device, sends it back to the
/// host and to Int8Params._quantize, which has it in fp16 on the device for int8_vectorwise_quant.
void CodePlacement::quantize_rows(const CodedMatrix& weight, const Label& label,
                                  Recorder& recorder) const {
  Label passing = label;
  passing.holding = Holding::temporaries;
  HeldStorage whole = recorder.make(checked_multiply(weight.elements, size_of(type_)), passing);
  HeldStorage half =
      recorder.make(checked_multiply(weight.elements, size_of(DType::fp16)), passing);
  for (const StoredTensor& tensor : stored_tensors(quantized_, weight, type_)) {
    recorder.allocate(bytes_of(tensor), label);
  }
  half.drop();
  whole.drop();
}

/// Params4bit._quantize: the weight comes whole, quantize_4bit makes codes of it, and
/// quantize_blockwise of its scales.
HeldVector CodePlacement::quantize(const CodedMatrix& matrix, const Label& label,
                                   Recorder& recorder) {
  Label passing = label;
  passing.holding = Holding::temporaries;
  HeldStorage weight = recorder.make(checked_multiply(matrix.elements, size_of(type_)), passing);
  HeldStorage half;
  if (takes_fp16_ && type_ != DType::fp16) {
    half = recorder.make(checked_multiply(matrix.elements, size_of(DType::fp16)), passing);
  }
  HeldVector kept;
  const std::vector<StoredTensor> stored = stored_tensors(quantized_, matrix, type_);
  const auto keep = [&](const StoredTensor& tensor) {
    kept.push_back(recorder.make(bytes_of(tensor), label));
  };
  // get_4bit_type: data.div_(data.abs().max())
  const auto make_values = [&](const StoredTensor& values) {
    keep(values);
    HeldStorage absolute = recorder.make(bytes_of(values), passing);
    HeldStorage largest = recorder.make(kFp32, passing);
    absolute.drop();
    largest.drop();
  };
  if (!quantized_.double_quant) {
    keep(stored[0]);
    keep(stored[1]);
    make_values(stored[2]);
    half.drop();
    weight.drop();
    return kept;
  }
  const std::int64_t blocks = stored[4].elements;
  HeldStorage absmax = recorder.make(checked_multiply(blocks, kFp32), passing);
  keep(stored[0]);
  make_values(stored[1]);
  keep(stored[2]);
  take_mean(blocks, passing, recorder);
  HeldStorage shifted = recorder.make(checked_multiply(blocks, kFp32), passing);
  if (!has_map_) recorder.allocate(kMapBytes, label);
  has_map_ = true;
  for (std::size_t i = 3; i < stored.size(); ++i) keep(stored[i]);
  shifted.drop();
  absmax.drop();
  half.drop();
  weight.drop();
  return kept;
}

HeldVector CodePlacement::make_nf4(const CodedMatrix& weight, const Label& label,
                                   Recorder& recorder) const {
  return make_nf4_tensor({quantized_, type_, device_}, weight, label, recorder);
}

HeldStorage CodePlacement::make_original(const CodedMatrix& weight, const Label& label,
                                         Recorder& recorder) const {
  return make_original_weight({quantized_, type_, device_}, weight, label, recorder);
}

/// DoraLinearLayer.update_layer: deepcopy(base_layer), then dequantize_module_weight. The state
/// is copied as the weight's and once more as the module's; Tensor.__deepcopy__ makes an element
/// before it takes the copy's storage.
HeldVector CodePlacement::dequantize_copy(const CopiedLayer& layer, const Label& label,
                                          Recorder& recorder) const {
  const std::vector<StoredTensor> stored =
      stored_tensors(quantized_, {.elements = layer.elements}, type_);
  HeldVector held;
  const auto copy = [&](std::string_view name) {
    const auto tensor = std::ranges::find(stored, name, &StoredTensor::name);
    if (tensor == stored.end()) return;
    held.push_back(recorder.make(bytes_of(*tensor), label));
    recorder.make_and_free(size_of(tensor->dtype), label);
  };
  const auto copy_state = [&copy] {
    for (const char* name : {"absmax", "values", "offset", "nested absmax", "nested values"}) {
      copy(name);
    }
  };
  copy_state();
  copy("codes");
  if (layer.bias_bytes > 0) held.push_back(recorder.make(layer.bias_bytes, label));
  copy_state();
  HeldStorage absmax;
  if (quantized_.double_quant) {
    const auto quantised = std::ranges::find(stored, "absmax", &StoredTensor::name);
    absmax = recorder.make(checked_multiply(quantised->elements, kFp32), label);
  }
  held.push_back(recorder.make(checked_multiply(layer.elements, size_of(type_)), label));
  return held;
}

/// `offset = _absmax.mean()` has its result already.
void CodePlacement::take_mean(std::int64_t blocks, const Label& label, Recorder& recorder) const {
  if (!device_) return;
  recorder.launch(reduction_scratch(sum_of_all(blocks, kFp32), *device_), label);
}

}  // namespace memest
