#include "memory/quantized/nf4_tensor.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "memest/diag/expect.hpp"
#include "memest/units/int128.hpp"

namespace memest {
namespace {

constexpr std::int64_t kChunk = 1024 * 1024;  // CHUNK_SIZE: codes that are looked for together
constexpr std::int64_t kValues = 16;  // of four bits, with each of which a chunk is compared

class Nf4Maker {
 public:
  Nf4Maker(const Nf4Making& making, const CodedMatrix& weight, const Label& label,
           Recorder& recorder)
      : elements_(weight.elements),
        blocks_(weight.elements / making.quantized.group_size),
        stored_(stored_tensors(making.quantized, weight, making.type)),
        type_(making.type),
        device_(making.device),
        label_(label),
        passing_(label),
        recorder_(recorder) {
    passing_.holding = Holding::temporaries;
  }

  /// from_tensor(): its table of values, then scales, then codes.
  HeldVector make() && {
    keep("values");
    double_quantize_scalers();
    convert_to_norm_float_weight();
    return std::move(kept_);
  }

 private:
  HeldStorage temporary(std::int64_t elements, DType dtype) {
    return recorder_.make(checked_multiply(elements, size_of(dtype)), passing_);
  }

  void keep(std::string_view name) {
    const auto tensor = std::ranges::find(stored_, name, &StoredTensor::name);
    expect(tensor != stored_.end(), "an NF4Tensor has the tensor");
    kept_.push_back(
        recorder_.make(checked_multiply(tensor->elements, size_of(tensor->dtype)), label_));
  }

  /// get_block_absmax(): blocks.abs().max(dim=1).values
  HeldStorage absmax(std::int64_t elements, std::int64_t blocks) {
    HeldStorage absolute = temporary(elements, type_);
    HeldStorage values = temporary(blocks, type_);
    HeldStorage indices = temporary(blocks, DType::int64);
    absolute.drop();
    indices.drop();
    return values;
  }

  /// scalers_1.mean()
  void take_mean() {
    keep("offset");
    if (!device_) return;
    recorder_.launch(reduction_scratch(sum_of_all(blocks_, size_of(type_)), *device_), passing_);
  }

  void double_quantize_scalers() {
    HeldStorage scalers = absmax(elements_, blocks_);
    take_mean();
    HeldStorage shifted = temporary(blocks_, type_);
    scalers.drop();
    HeldStorage largest = absmax(blocks_, of_nested());
    // 256 / (2 * scaler_absmax): a reciprocal, times 256.
    HeldStorage doubled = temporary(blocks_, type_);
    HeldStorage reciprocal = temporary(blocks_, type_);
    HeldStorage factor = temporary(blocks_, type_);
    doubled.drop();
    reciprocal.drop();
    HeldStorage scaled = temporary(blocks_, type_);
    scaled = temporary(blocks_, type_);  // round()
    scaled = temporary(blocks_, type_);  // clamp()
    keep("absmax");
    keep("nested absmax");
    shifted.drop();
    largest.drop();
    factor.drop();
    scaled.drop();
  }

  void convert_to_norm_float_weight() {
    HeldStorage scalers = absmax(elements_, blocks_);
    HeldStorage scaled = temporary(elements_, type_);
    HeldStorage codes = temporary(elements_, DType::uint8);
    for (std::int64_t start = 0; start < elements_; start += kChunk) {
      find_nearest(std::min(kChunk, elements_ - start));
    }
    // quantized_blocks[::2] << 4 | quantized_blocks[1::2]
    HeldStorage shifted = temporary(elements_ / 2, DType::uint8);
    keep("codes");
    shifted.drop();
    scalers.drop();
    codes.drop();
    scaled.drop();
  }

  /// quantize_tensor_nearest(): the codes of a chunk, which are then copied to where they belong.
  void find_nearest(std::int64_t elements) {
    const std::int64_t differences = checked_multiply(elements, kValues);
    HeldStorage signed_difference = temporary(differences, type_);
    HeldStorage difference = temporary(differences, type_);
    signed_difference.drop();
    HeldStorage values = temporary(elements, type_);
    HeldStorage nearest = temporary(elements, DType::int64);
    values.drop();
    difference.drop();
    HeldStorage codes = temporary(elements, DType::uint8);
    nearest.drop();
    codes.drop();
  }

  [[nodiscard]] std::int64_t of_nested() const {
    return std::ranges::find(stored_, "nested absmax", &StoredTensor::name)->elements;
  }

  std::int64_t elements_;
  std::int64_t blocks_;
  std::vector<StoredTensor> stored_;
  DType type_;
  const std::optional<LaunchDevice>& device_;
  Label label_;
  Label passing_;
  Recorder& recorder_;
  HeldVector kept_;
};

}  // namespace

HeldStorage make_original_weight(const Nf4Making& making, const CodedMatrix& weight,
                                 const Label& label, Recorder& recorder) {
  const auto make = [&](std::int64_t elements, DType dtype) {
    return recorder.make(checked_multiply(elements, size_of(dtype)), label);
  };
  const std::int64_t half = weight.elements / 2;
  const std::int64_t blocks = weight.elements / making.quantized.group_size;
  const auto index = [&] {
    const HeldStorage codes = make(half, DType::uint8);
    return make(half, DType::int64);
  };
  const auto scaled = [&] {
    const HeldStorage repeated = make(half, making.type);
    return make(half, making.type);
  };
  HeldVector locals;
  for (int element = 0; element < 2; ++element) locals.push_back(index());
  for (int element = 0; element < 2; ++element) locals.push_back(make(half, making.type));
  HeldStorage scales = make(blocks, making.type);
  scales = make(blocks, making.type);
  locals.push_back(std::move(scales));
  for (int element = 0; element < 2; ++element) locals.push_back(scaled());
  return make(weight.elements, making.type);
}

HeldVector make_nf4_tensor(const Nf4Making& making, const CodedMatrix& weight, const Label& label,
                           Recorder& recorder) {
  return Nf4Maker(making, weight, label, recorder).make();
}

}  // namespace memest
