// Graphs and closed forms of a search: each is made once, for all layouts that it answers for.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "memest/graph/lower.hpp"
#include "memest/memory/stage_form.hpp"
#include "memest/plan/search.hpp"
#include "plan/layouts/memo.hpp"
#include "plan/layouts/space.hpp"

namespace memest {

/// The traits of a GPU type that a ledger depends on: types of one class share their ledgers.
struct DeviceClass {
  ComputeCapability capability;
  std::int64_t context = 0;
  std::int64_t context_low = 0;
  std::int64_t context_high = 0;

  auto operator<=>(const DeviceClass&) const = default;
};
DeviceClass device_class_of(const GpuSpec& gpu);

/// A graph, or why there is none.
using Lowered = std::variant<Graph, Unavailable>;

/// The closed form of one rank class.
struct RankForm {
  StageForm form;
  std::int64_t ends = 0;      ///< parameters outside the layers
  std::int64_t of_layer = 0;  ///< of a layer
  std::int64_t experts_of_layer = 0;
  std::int64_t experts = 0;  ///< where layers differ: of the rank
  std::int64_t layers = 0;   ///< where they differ: of a stage
};

/// Which rank of a pipeline: its first, one of those between and its last. One between holds no
/// table and no more micro-steps in flight than the first, so it takes most only where it has other
/// layers; of several the second does, or the first of those that a list gives the most layers.
enum class StagePlace : std::uint8_t { first, middle, last };
inline constexpr std::array kStagePlaces = {StagePlace::first, StagePlace::middle,
                                            StagePlace::last};
/// Whether a rank there may be the one that takes most of a model whose layers are `alike` or not.
bool may_take_most(StagePlace place, const Parallelism& layout, bool alike);
/// Whether all layers are alike and dealt in equal numbers, so that one form answers for any number
/// of them. torchtitan's ranks differ by more: each has buffers for every micro-step.
bool has_layers_alike(const Job& job);
/// Whether the stages of a rank have as many layers each, and one at least.
bool has_stages_alike(const Parallelism& layout);
/// The micro-steps that decide a form: whether there are several or, in torchtitan's pipelines, how
/// many are in flight of each stage.
std::int64_t steps_of_form(const Job& job, const Parallelism& layout, const BatchChoice& batch);
std::int64_t rank_at(StagePlace place, const Parallelism& layout);

/// A layout's forms by StagePlace; null where no rank there may take most.
struct RankForms {
  std::array<const RankForm*, kStagePlaces.size()> at{};
  bool exist = false;
};

/// A GPU type's place in the request, with its class.
struct DeviceOfSearch {
  const GpuSpec* gpu = nullptr;
  DeviceClass device;
};

/// One job's; several threads may ask at once.
class LayoutForms {
 public:
  /// `job` and `others` outlive this. `others` are of a job that differs in how many layers it has,
  /// which are alike, and more than one as here: of unsplit models the forms are the same, as they
  /// have a letter for that.
  LayoutForms(const Job& job, const std::vector<Recompute>& recomputes,
              LayoutForms* others = nullptr)
      : job_(job), recomputes_(recomputes), alike_(has_layers_alike(job)), others_(others) {}

  /// The whole model as a rank of the layout's tensor, context and expert ranks holds it.
  const Lowered& graph_of(const DeviceOfSearch& device, const Parallelism& layout,
                          std::int64_t micro_batch);
  /// How the layout cuts the model's layers into stages.
  [[nodiscard]] StageSplit split_of(const Parallelism& layout) const;
  /// Layouts of one key have one set of forms for each micro-batch, steps_of_form and recompute.
  struct FormsKey {
    Parallelism layout;       ///< of layout_of_form
    std::int64_t places = 0;  ///< that may take most, and whether of one layer, two bits each

    auto operator<=>(const FormsKey&) const = default;
  };
  [[nodiscard]] FormsKey forms_key(const StageSplit& split, const Parallelism& layout) const;
  /// None where there is no graph. `recompute` is an index into the search's choices.
  RankForms forms_of(const DeviceOfSearch& device, const Parallelism& layout,
                     const BatchChoice& batch, std::size_t recompute);
  /// As above, from states alone: no peak of those forms is lower.
  RankForms floors_of(const DeviceOfSearch& device, const Parallelism& layout,
                      const BatchChoice& batch, std::size_t recompute);
  /// Bytes of host memory taken by a rank of a layout that offloads; it has a graph.
  Bytes host_bytes_of(const DeviceOfSearch& device, const Parallelism& layout,
                      const BatchChoice& batch);

 private:
  /// Which part of the model; all of it where `pipeline` is 1.
  struct Part {
    std::int64_t pipeline = 1;
    std::int64_t stages = 1;
    std::int64_t rank = 0;
    bool single_layers = false;  ///< stages of one layer, which makes what the others would share
    std::vector<LayerSpan> layers = {};  ///< of each stage, where they are not alike

    auto operator<=>(const Part&) const = default;
  };
  /// Everything that decides a graph but the micro-batch.
  struct GraphKey {
    ComputeCapability capability;
    std::int64_t multiprocessors = 0;
    LayerDivision division;
    Part part;
    std::int64_t reporting = 1;  ///< ranks: several have the formulas of two

    auto operator<=>(const GraphKey&) const = default;
  };
  /// Graphs of one key, whatever the multiprocessors: most micro-batches and most GPU types of one
  /// capability lower to the same formulas and share one.
  struct Variants {
    std::mutex mutex;
    std::deque<Lowered> distinct;
  };
  enum class Content : std::uint8_t {
    step,   ///< every moment of a step
    states  ///< what lies there whatever is computed, in a hundredth of the time
  };
  /// All that a form is made from: two threads that make one key's form make equal forms.
  struct FormKey {
    const Lowered* graph = nullptr;
    Parallelism layout;  ///< of layout_of_form
    std::int64_t rank = 0;
    std::int64_t micro_steps = 1;
    std::size_t recompute = 0;
    Content content = Content::step;
    bool flattens_on_host = false;

    auto operator<=>(const FormKey&) const = default;
  };

  /// Whether all layers are alike and the rank's stages have as many of them.
  [[nodiscard]] bool alike(const Parallelism& layout) const {
    return alike_ && has_stages_alike(layout);
  }
  /// The layout that stands for all those that share the forms of `layout`: what the forms have
  /// letters for (replicas, and of layers that are alike the stages) is the same in it.
  [[nodiscard]] Parallelism layout_of_form(const Parallelism& layout) const;
  RankForm make_form(const Graph& graph, const Job& job, const FormKey& key);
  [[nodiscard]] RankForm rank_form(const Graph& graph, const Parallelism& layout,
                                   const Ledger& ledger) const;
  /// Everything that decides how much host memory a rank takes.
  struct HostKey {
    const Lowered* graph = nullptr;
    std::int64_t data = 1;
    Sharing sharing;
    bool accumulates = false;
    bool flattens_on_host = false;
    /// Micro-batch, micro-steps, whether a pipeline cuts it: where a data loader keeps batches.
    std::tuple<std::int64_t, std::int64_t, bool> batch;

    auto operator<=>(const HostKey&) const = default;
  };

  [[nodiscard]] Job job_for(const DeviceOfSearch& device, const Parallelism& layout,
                            const BatchChoice& batch) const;
  [[nodiscard]] Part part_of(const Parallelism& layout, StagePlace place) const;
  [[nodiscard]] std::vector<ModelPart> parts_of(const Part& part) const;
  [[nodiscard]] GraphKey key_of(const DeviceOfSearch& device, const Parallelism& layout,
                                const Part& part) const;
  const Lowered& graph_of(const GraphKey& key, const DeviceOfSearch& device,
                          const Parallelism& layout, std::int64_t micro_batch);
  /// A rank's form, but for its layout and batch.
  struct FormKind {
    StagePlace place = StagePlace::first;
    std::size_t recompute = 0;  ///< index into the search's choices
    Content content = Content::step;
  };
  RankForms forms_of(const DeviceOfSearch& device, const Parallelism& layout,
                     const BatchChoice& batch, FormKind kind);
  const RankForm* form_of(const DeviceOfSearch& device, const Parallelism& layout,
                          const BatchChoice& batch, const FormKind& kind);

  const Job& job_;
  const std::vector<Recompute>& recomputes_;
  bool alike_;  ///< the layers
  LayoutForms* others_;
  std::mutex variants_mutex_;
  std::map<GraphKey, Variants> variants_;
  Memo<std::pair<GraphKey, std::int64_t>, const Lowered*> graphs_;  ///< by micro-batch too
  GraphMoments moments_;
  Memo<FormKey, RankForm> forms_;
  Memo<HostKey, Bytes> hosts_;
};

/// The rank of a layout that takes most, in closed form.
struct WorstRank {
  const RankForm* form = nullptr;
  Bytes peak;

  [[nodiscard]] MemoryEstimate estimate(const OutsideBytes& outside) const {
    return form->form.estimate(peak, outside);
  }
};
WorstRank worst_rank(const RankForms& forms, const StageSplit& split, const Parallelism& layout,
                     const BatchChoice& batch);

}  // namespace memest
