// The blocks of a graph one by one in forward order, and where each of their tensors lives: a
// block's input is its predecessor's output, a shared tensor is known by its name.
#pragma once

#include <cstdint>
#include <vector>

#include "memest/graph/graph.hpp"
#include "memory/engine/block_program.hpp"

namespace memest {

/// Where a tensor's storage and its gradient are found while the program runs.
using Cell = std::uint32_t;

struct BlockInstance {
  std::uint32_t block = 0;  ///< index into Graph::blocks
  std::uint32_t first_cell = 0;
};

/// An op of the forward order.
struct OpSite {
  std::uint32_t instance = 0;
  std::uint32_t op = 0;
  bool reuses = false;  ///< takes the copy that autocast has of a weight: a node stands there once

  friend bool operator==(const OpSite&, const OpSite&) = default;
};

/// A parameter that blocks read.
struct ParameterUse {
  std::uint32_t instance = 0;  ///< the block that owns it
  TensorId tensor = 0;
  std::int64_t elements = 0;
  std::int64_t rows = 0;
  DType dtype = DType::fp32;
  std::int64_t contributions = 0;  ///< gradients that one backward adds
  bool relaid = false;             ///< its gradient is put into the shard's form when reduced
  bool of_experts = false;         ///< an op of BlockProgram::experts reads it
  bool unstepped = false;          ///< its gradient stays
};

/// A stage of a pipeline: ops [begin, end) of sites(), from `loss` on the loss's, and the cells of
/// what it is given and of what it answers.
struct StageSites {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t loss = 0;
  Cell input = 0;
  Cell output = 0;
};

/// The name by which blocks know a batch's images.
inline constexpr std::string_view kImages = "pixel values";
/// And the type of each token.
inline constexpr std::string_view kTypesOfTokens = "token types";
/// And by which they know how many patches the images have.
inline constexpr std::string_view kImageGrids = "image grids";

/// Whether the model answers logits: not where its loss multiplies by the output head itself
/// (Liger's lce_forward).
[[nodiscard]] bool answers_logits(const Graph& graph);

class ForwardOrder {
 public:
  ForwardOrder(const Graph& graph, const std::optional<LaunchDevice>& device);

  [[nodiscard]] const std::vector<BlockProgram>& programs() const { return programs_; }
  [[nodiscard]] const std::vector<BlockInstance>& instances() const { return instances_; }
  [[nodiscard]] const std::vector<OpSite>& sites() const { return sites_; }
  [[nodiscard]] const std::vector<ParameterUse>& parameters() const { return parameters_; }
  [[nodiscard]] std::uint32_t cells() const { return cells_; }

  [[nodiscard]] const BlockProgram& program(const OpSite& site) const {
    return programs_[instances_[site.instance].block];
  }
  [[nodiscard]] const OpProgram& op(const OpSite& site) const { return program(site).ops[site.op]; }
  /// The cell of the tensor's gradient; of a parameter its index in parameters().
  [[nodiscard]] Cell cell(std::uint32_t instance, TensorId tensor) const {
    return cell_of_[instances_[instance].first_cell + tensor];
  }
  /// The cell of the storage that the tensor lives in.
  [[nodiscard]] Cell storage_cell(std::uint32_t instance, TensorId tensor) const {
    return storage_cell_of_[instances_[instance].first_cell + tensor];
  }

  /// The cell of what the block answers.
  [[nodiscard]] Cell output_cell(std::uint32_t instance) const {
    return cell(instance, programs_[instances_[instance].block].output);
  }

  /// The storages that the ops of [begin, end) of sites() read and did not make, parameters
  /// excluded.
  [[nodiscard]] std::vector<Cell> inputs_of(const Graph& graph, std::uint32_t begin,
                                            std::uint32_t end) const;

  /// The cells of the arguments of the block at `site`: its input, and what it knows by name.
  [[nodiscard]] std::vector<Cell> arguments_of(const Graph& graph, std::uint32_t site) const;

  /// The cells that the data loader fills: the batch, where the model reads one.
  [[nodiscard]] const std::vector<Cell>& batch_cells() const { return batch_cells_; }
  /// Where the labels are a tensor of their own, as large as the batch.
  [[nodiscard]] const std::vector<Cell>& label_cells() const { return label_cells_; }
  [[nodiscard]] std::int64_t batch_bytes() const { return batch_bytes_; }
  [[nodiscard]] bool batch_is_token_ids() const { return batch_is_token_ids_; }
  /// Bytes of the labels of a batch that is no token ids; 0 where it has none.
  [[nodiscard]] std::int64_t label_bytes() const { return label_bytes_; }
  /// Bytes of a batch's images, where its sequences have any.
  [[nodiscard]] std::int64_t image_bytes() const { return image_bytes_; }
  [[nodiscard]] std::int64_t grid_bytes() const { return grid_bytes_; }
  [[nodiscard]] bool reads_token_types() const { return reads_token_types_; }
  /// The stages of a pipeline's rank; the whole model is one.
  [[nodiscard]] const std::vector<StageSites>& stages() const { return stages_; }
  /// The cells of what blocks know by `name`, which the caller hands in: none or one.
  [[nodiscard]] std::vector<Cell> cells_named(std::string_view name) const;
  /// The loss, and what the loss is computed from; both are the logits where there is no loss.
  [[nodiscard]] Cell loss_cell() const { return loss_cell_; }
  [[nodiscard]] std::int64_t loss_bytes() const { return loss_bytes_; }
  [[nodiscard]] Cell logits_cell() const { return logits_cell_; }
  [[nodiscard]] TensorId logits_tensor() const { return logits_tensor_; }
  [[nodiscard]] std::int64_t logits_bytes() const { return logits_bytes_; }
  /// See Graph::is_one_region.
  [[nodiscard]] bool is_one_region() const { return is_one_region_; }
  /// Bytes of the logits in fp32; 0 where they are of 32 bits already.
  [[nodiscard]] std::int64_t widened_logits_bytes() const { return widened_logits_bytes_; }

 private:
  void link(const Graph& graph, std::uint32_t instance);
  void find_owners(const Graph& graph);
  [[nodiscard]] bool shares_weights(std::uint32_t instance) const {
    return owners_[instance] != instance;
  }
  Cell named_cell(std::string_view name);
  std::uint32_t parameter_index(const Graph& graph, std::uint32_t instance, TensorId tensor);
  void count_contributions();
  void find_ends(const Graph& graph);
  void find_stages(const Graph& graph);
  [[nodiscard]] bool begins_stage(std::uint32_t instance) const;

  struct NamedCell {
    std::string_view name;
    Cell cell = 0;
  };

  std::vector<BlockProgram> programs_;
  std::vector<BlockInstance> instances_;
  std::vector<std::uint32_t> owners_;  // of each instance's weights
  std::vector<OpSite> sites_;
  std::vector<Cell> cell_of_;
  std::vector<Cell> storage_cell_of_;
  std::vector<NamedCell> named_;
  std::vector<ParameterUse> parameters_;
  std::vector<Cell> batch_cells_;
  std::vector<Cell> label_cells_;
  std::vector<std::uint32_t> first_of_stage_;  // instances
  std::vector<StageSites> stages_;
  std::uint32_t cells_ = 0;
  Cell loss_cell_ = 0;
  Cell logits_cell_ = 0;
  std::int64_t batch_bytes_ = 0;
  std::int64_t label_bytes_ = 0;
  std::int64_t image_bytes_ = 0;
  std::int64_t grid_bytes_ = 0;
  bool reads_token_types_ = false;
  std::int64_t loss_bytes_ = 0;
  std::int64_t widened_logits_bytes_ = 0;
  std::int64_t logits_bytes_ = 0;
  TensorId logits_tensor_ = 0;
  bool is_one_region_ = false;
  bool batch_is_token_ids_ = false;
};

}  // namespace memest
