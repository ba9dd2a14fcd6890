// Module.to(), and what peft adds to a model that has its place; and the ways on which FSDP's
// shares come to the GPU tensor by tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "memest/spec/adapter.hpp"
#include "memest/spec/model.hpp"
#include "memest/spec/recipe.hpp"
#include "memory/engine/process_state.hpp"
#include "memory/quantized/code_placement.hpp"
#include "memory/sharding/model_tensors.hpp"
#include "memory/timeline/recorder.hpp"

namespace memest {

/// When a model's buffers come to the device.
enum class BufferOrder : std::uint8_t {
  as_registered,  ///< among the parameters, by Module.to()
  first           ///< fully_shard sends them; the shares follow where they are made
};

/// The type of a parameter that is not kept as codes: an adapter's is the trained one, which copies
/// of whole modules have not.
DType placed_type(const ParameterTensor& row, const Recipe& recipe);

class ModelPlacement {
 public:
  /// `inventory`: what the rank keeps, of which `tensors` are the tensors.
  ModelPlacement(const Inventory& inventory, const Recipe& recipe, const ModelTensors& tensors,
                 Recorder& recorder)
      : inventory_(inventory), recipe_(recipe), tensors_(tensors), recorder_(recorder) {}

  /// The weights stay in the host's memory.
  void keep_weights_on_host() { weights_on_host_ = true; }
  [[nodiscard]] bool keeps_weights_on_host() const { return weights_on_host_; }

  /// Linear layers' weights become codes on the device.
  void quantize(const QuantizedWeights& quantized, std::optional<LaunchDevice> device) {
    codes_.emplace(quantized, recipe_.compute, device);
  }
  [[nodiscard]] std::optional<CodePlacement>& codes() { return codes_; }

  /// A module whose parameter is tied to this one is given memory of its own, behind all others,
  /// before it is tied anew (torchtitan: to_empty, then init_weights).
  void give_spare_of(std::size_t parameter) { spare_of_ = parameter; }
  [[nodiscard]] StorageId spare() const { return spare_; }

  /// The buffers of the libraries that multiply while the model is made.
  void share(LibraryBuffers& buffers) { buffers_ = &buffers; }

  void write(bool adapted, BufferOrder buffers);
  /// Where the parameters that are not kept as codes came in 16 bits, and are wider now.
  [[nodiscard]] bool widens() const { return codes_ && recipe_.weights != recipe_.compute; }
  /// The parameters that peft's prepare_model_for_kbit_training casts to fp32.
  void widen();
  /// The model has its place.
  void place_adapters(const Adapter& adapter);

  /// One parameter, or the codes that stand for it.
  void place_parameter(std::size_t parameter);
  /// As above: the caller's.
  HeldVector make_parameter(std::size_t parameter);
  /// One parameter as the rank keeps it.
  StorageId place(std::size_t parameter) { return place(parameter, type_of(parameter)); }
  /// So many elements of it, on their way to be cut: none of them stays.
  [[nodiscard]] HeldStorage place_whole(std::size_t parameter, std::int64_t elements);
  /// So many elements of a weight that comes to the device before it becomes codes, or is cut.
  [[nodiscard]] HeldStorage make_uncoded(std::size_t parameter, std::int64_t elements);
  /// The codes that torchao makes of those: the caller's.
  [[nodiscard]] HeldVector make_nf4(std::size_t parameter, std::int64_t elements);
  /// The weight that torchao's codes stand for.
  [[nodiscard]] HeldStorage make_original(std::size_t parameter);
  /// A product of the library's runs.
  void multiply();
  /// The rank's shares of the codes' tensors that FSDP2 cuts.
  void place_nf4_shares(std::size_t parameter);
  void place_buffer(std::size_t i);
  StorageId place_buffer(std::size_t i, DType dtype);
  void place_buffers();

 private:
  [[nodiscard]] const ParameterTensor& row(std::size_t parameter) const {
    return inventory_.parameters[tensors_.parameters[parameter].row];
  }
  [[nodiscard]] DType type_of(std::size_t parameter) const {
    if (codes_ && row(parameter).quantized) return codes_->quantized().storage;
    return placed_type(row(parameter), recipe_);
  }
  void probe_context();
  StorageId place(std::size_t parameter, DType dtype);
  /// Places the magnitude that DoRA begins with, which peft computes from the layer.
  StorageId place_magnitude(std::size_t parameter, DType dtype);
  /// A tensor of the model, and the storage that its copy in another type takes the place of.
  struct Placed {
    bool buffer = false;
    std::size_t tensor = 0;
    StorageId storage = kNoStorage;
  };
  std::vector<Placed> place_trained(const Adapter& adapter, DType dtype);
  std::vector<Placed> cast(const std::vector<Placed>& tensors, DType dtype);
  [[nodiscard]] DType loaded_type() const { return codes_ ? recipe_.compute : recipe_.weights; }

  const Inventory& inventory_;
  const Recipe& recipe_;
  const ModelTensors& tensors_;
  Recorder& recorder_;
  std::optional<std::size_t> spare_of_;
  StorageId spare_ = kNoStorage;
  std::optional<CodePlacement> codes_;
  std::vector<std::pair<std::size_t, StorageId>> narrow_;  // what widen() casts, once it is placed
  bool weights_on_host_ = false;
  LibraryBuffers* buffers_ = nullptr;
};

}  // namespace memest
