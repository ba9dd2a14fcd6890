#include "reader/job/read_cluster.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "memest/diag/environment.hpp"
#include "memest/reader/catalog.hpp"
#include "reader/frameworks/pipeline_layout.hpp"
#include "reader/keys/keys.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/source.hpp"

namespace memest {
namespace {

const Value* find(const Value* table, std::string_view key) {
  return table == nullptr ? nullptr : table->find(key);
}

/// A stage beyond 1 shards gradients too, beyond 2 weights as well.
ZeroStage zero_stage_of(std::int64_t zero) {
  switch (zero) {
    case 1:
      return ZeroStage::optimizer;
    case 2:
      return ZeroStage::optimizer_gradients;
    case 3:
      return ZeroStage::optimizer_gradients_weights;
    default:
      return ZeroStage::none;
  }
}

Reshard reshard_of(const Value* written) {
  if (written == nullptr || written->text == "always") return Reshard::always;
  // torchtitan's word; apply_fsdp leaves the output head's unit gathered, since its backward comes
  // at once.
  if (written->text == "default") return Reshard::all_but_last;
  return written->text == "never" || !as_flag(written).value_or(true) ? Reshard::never
                                                                      : Reshard::always;
}

std::optional<ShardInit> shard_init_of(const Value* written) {
  for (const ShardInit init : {ShardInit::meta, ShardInit::host, ShardInit::device}) {
    if (written != nullptr && written->text == name_of(init)) return init;
  }
  return std::nullopt;
}

FullySharded read_fsdp(const Value& written) {
  FullySharded fsdp;
  fsdp.version = static_cast<int>(as_count(written.find("version")).value_or(fsdp.version));
  fsdp.reshard = reshard_of(written.find("reshard_after_forward"));
  fsdp.replicate = as_count(written.find("replicate")).value_or(fsdp.replicate);
  fsdp.init = shard_init_of(written.find("init"));
  fsdp.sync_module_states = as_flag(written.find("sync_module_states")).value_or(false);
  fsdp.trained_apart = as_text(written.find("units")).value_or("") == "adapters";
  fsdp.no_sync = as_flag(written.find("no_sync")).value_or(false);
  return fsdp;
}

/// `auto` is what transformers makes of it from the model's hidden size
/// (transformers/integrations/deepspeed.py, trainer_config_finalize).
class DeepSpeedReader {
 public:
  DeepSpeedReader(const Value* written, const ModelSpec& model, Diagnostics& diagnostics)
      : written_(written), diagnostics_(diagnostics) {
    const auto* decoder = std::get_if<DecoderSpec>(&model.architecture);
    if (decoder != nullptr) hidden_size_ = decoder->hidden_size;
  }

  DeepSpeed read() {
    DeepSpeed spec;
    // h 4096: 16 777 216 elements are reduced at once, and weights of fewer than 40 960 stay
    // gathered.
    const std::int64_t square = checked_multiply(hidden_size_, hidden_size_);
    size("reduce_bucket_size", square, spec.reduce_bucket_size);
    spec.auto_prefetch =
        size("stage3_prefetch_bucket_size", checked_multiply(square, std::int64_t{9}) / 10,
             spec.prefetch_bucket_size);
    spec.auto_persistence =
        size("stage3_param_persistence_threshold", checked_multiply(hidden_size_, std::int64_t{10}),
             spec.persistence_threshold);
    size("stage3_max_live_parameters", 0, spec.max_live_parameters);
    size("sub_group_size", 0, spec.sub_group_size);
    size("stage3_max_reuse_distance", spec.max_reuse_distance, spec.max_reuse_distance);
    spec.zero_init = as_flag(find(written_, "zero_init")).value_or(spec.zero_init);
    spec.overlap_comm = as_flag(find(written_, "overlap_comm"));
    spec.contiguous_gradients =
        as_flag(find(written_, "contiguous_gradients")).value_or(spec.contiguous_gradients);
    return spec;
  }

 private:
  /// Answers whether it is written as `auto`.
  bool size(std::string_view key, std::int64_t automatic, std::int64_t& size) {
    const Value* value = find(written_, key);
    if (value == nullptr) return false;
    if (const auto number = as_count(value)) {
      size = *number;
      return false;
    }
    if (hidden_size_ > 0) {
      size = automatic;
    } else {
      diagnostics_.push_back(
          error_at(value->span, "'auto' is made of a hidden size, which this model does not have",
                   "write a number of elements"));
    }
    return true;
  }

  const Value* written_;
  Diagnostics& diagnostics_;
  std::int64_t hidden_size_ = 0;
};

Schedule schedule_of(const Value* written) {
  for (const Schedule schedule : {Schedule::interleaved, Schedule::zero_bubble, Schedule::zbv,
                                  Schedule::dual_pipe_v, Schedule::gpipe}) {
    if (written != nullptr && written->text == name_of(schedule)) return schedule;
  }
  return Schedule::one_f_one_b;
}

/// FSDP shards everything, Megatron's distributed optimizer its states: `zero` may say so too.
void read_shards(const Value* written, Parallelism& parallelism, Diagnostics& diagnostics) {
  const Value* zero = find(written, "zero");
  const Value* distributed = find(written, "distributed_optimizer");
  const Value* fsdp = find(written, "fsdp");
  parallelism.zero = zero_stage_of(as_count(zero).value_or(0));
  const auto imply = [&](const Value& by, const std::string& name, int stage) {
    if (zero != nullptr && parallelism.zero != zero_stage_of(stage)) {
      diagnostics.push_back(error_at(
          by.span, name + " is ZeRO " + std::to_string(stage) + ", and 'zero' is " + zero->text,
          "leave one of them out"));
    }
    parallelism.zero = zero_stage_of(stage);
  };
  if (as_flag(distributed).value_or(false)) {
    imply(*distributed, "'distributed_optimizer'", 1);
    parallelism.distributed_optimizer = true;
  }
  if (fsdp == nullptr || fsdp->kind != ValueKind::mapping) return;
  parallelism.fsdp = read_fsdp(*fsdp);
  imply(*fsdp, "'fsdp'", 3);
}

HostOffload read_offload(const Value* written) {
  const auto lies_on = [written](std::string_view key, std::string_view device) {
    const Value* said = find(written, key);
    return said != nullptr && said->text == device;
  };
  HostOffload offload{.optimizer = lies_on("optimizer", "cpu"),
                      .parameters = lies_on("parameters", "cpu"),
                      .pinned = as_flag(find(written, "pin_memory")).value_or(true),
                      .optimizer_on_nvme = lies_on("optimizer", "nvme"),
                      .parameters_on_nvme = lies_on("parameters", "nvme")};
  offload.optimizer = offload.optimizer || offload.optimizer_on_nvme;
  offload.parameters = offload.parameters || offload.parameters_on_nvme;
  return offload;
}

std::int64_t ranks_of(const Value* written, std::string_view key) {
  return std::clamp<std::int64_t>(as_count(find(written, key)).value_or(1), 1, kMaxRanks);
}

/// A list says how many stages a rank has.
void read_listed_stages(const Value* written, Parallelism& parallelism, Diagnostics& diagnostics) {
  const Value* list = find(written, "pipeline_layout");
  if (list == nullptr) return;
  parallelism.stage_layers = read_pipeline_layout(*list, parallelism.pipeline, diagnostics);
  if (parallelism.stage_layers.empty() || find(written, "virtual_stages") != nullptr) return;
  parallelism.virtual_stages =
      static_cast<std::int64_t>(parallelism.stage_layers.size()) / parallelism.pipeline;
}

Parallelism read_parallelism(const Value* written, Diagnostics& diagnostics) {
  Parallelism parallelism;
  parallelism.tensor = ranks_of(written, "tensor");
  parallelism.pipeline = ranks_of(written, "pipeline");
  parallelism.context = ranks_of(written, "context");
  if (const auto exchange = as_text(find(written, "context_exchange"));
      exchange == name_of(ContextExchange::all_to_all)) {
    parallelism.context_exchange = ContextExchange::all_to_all;
  }
  parallelism.expert = ranks_of(written, "expert");
  parallelism.expert_tensor = as_count(find(written, "expert_tensor"));
  parallelism.sequence = as_flag(find(written, "sequence")).value_or(false);
  parallelism.schedule = schedule_of(find(written, "schedule"));
  parallelism.first_stage_layers = as_count(find(written, "first_stage_layers")).value_or(0);
  parallelism.last_stage_layers = as_count(find(written, "last_stage_layers")).value_or(0);
  parallelism.virtual_stages = as_count(find(written, "virtual_stages")).value_or(1);
  parallelism.account_for_embedding =
      as_flag(find(written, "account_for_embedding")).value_or(false);
  parallelism.account_for_loss = as_flag(find(written, "account_for_loss")).value_or(false);
  read_listed_stages(written, parallelism, diagnostics);
  // Several stages a rank are interleaved where nothing else is said, as Megatron's always are.
  if (parallelism.virtual_stages > 1 && find(written, "schedule") == nullptr) {
    parallelism.schedule = Schedule::interleaved;
  }
  read_shards(written, parallelism, diagnostics);
  parallelism.offload = read_offload(find(written, "offload"));
  parallelism.overlap_grad_reduce = as_flag(find(written, "overlap_grad_reduce")).value_or(false);
  parallelism.overlap_param_gather = as_flag(find(written, "overlap_param_gather")).value_or(false);
  const Value* ddp = find(written, "ddp");
  if (const auto bucket = as_count(find(ddp, "bucket_mb"))) {
    parallelism.ddp.bucket_cap = Bytes(kMiB) * *bucket;
  }
  parallelism.ddp.gradient_as_bucket_view =
      as_flag(find(ddp, "gradient_as_bucket_view")).value_or(false);
  parallelism.ddp.finds_unused = as_flag(find(ddp, "find_unused_parameters"));
  return parallelism;
}

/// data x tensor x pipeline x context, with a text that shows those beyond 1.
struct RankProduct {
  std::int64_t ranks = 1;
  std::string text;
};
RankProduct product_of_ranks(const Value* parallelism, std::int64_t data) {
  RankProduct product{.ranks = data, .text = "data " + std::to_string(data)};
  for (const std::string_view key : {"tensor", "pipeline", "context"}) {
    const std::int64_t ranks = as_count(find(parallelism, key)).value_or(1);
    if (ranks <= 1) continue;
    product.ranks = checked_multiply(product.ranks, std::min(ranks, kMaxRanks));
    product.text += " x " + std::string(key) + " " + std::to_string(ranks);
  }
  return product;
}

void note_given(const Value* parallelism, WrittenKeys& given) {
  const auto has = [&](std::string_view key) { return find(parallelism, key) != nullptr; };
  given.sharing = has("zero") || has("distributed_optimizer") || has("fsdp");
  given.tensor = has("tensor");
  given.sequence = has("sequence");
  given.context = has("context");
  given.pipeline = has("pipeline");
  given.expert = has("expert");
  given.stage_layers = has("first_stage_layers") || has("last_stage_layers") ||
                       has("account_for_embedding") || has("account_for_loss") ||
                       has("pipeline_layout");
  given.listed_stages = has("pipeline_layout");
  given.offload = has("offload");
  given.overlap = has("overlap_grad_reduce") || has("overlap_param_gather");
  given.schedule = has("schedule") || has("virtual_stages") || has("pipeline_layout");
}

/// Data-parallel ranks and GPUs: each follows from the other where it is left out.
void read_ranks(const ClusterSections& sections, Job& job, Diagnostics& diagnostics) {
  const Value* data_value = find(sections.parallelism, "data");
  const Value* count_value = find(sections.hardware, "count");
  const std::optional<std::int64_t> count = as_count(count_value);
  const std::int64_t when_left_out = sections.parallelism == nullptr ? count.value_or(1) : 1;
  job.parallelism.data =
      std::clamp<std::int64_t>(as_count(data_value).value_or(when_left_out), 1, kMaxRanks);
  const RankProduct product = product_of_ranks(sections.parallelism, job.parallelism.data);
  job.hardware.count = count.value_or(product.ranks);
  if (product.ranks == job.hardware.count) return;
  const std::string gpus = std::to_string(job.hardware.count);
  diagnostics.push_back(error_at(
      data_value != nullptr ? data_value->span : count_value->span,
      "'parallelism' uses " + std::to_string(product.ranks) + " GPU" +
          (product.ranks == 1 ? "" : "s") + " (" + product.text + "), 'hardware.count' is " + gpus,
      data_value != nullptr ? "the product of the ranks is the count of the GPUs"
                            : "set parallelism.data to " + gpus));
}

/// Diagnostics about a name point at the name; those within a file of its own keep their place.
void append_at(const SourceSpan& span, const Diagnostics& found, Diagnostics& diagnostics) {
  for (Diagnostic diagnostic : found) {
    if (diagnostic.span.source == nullptr) diagnostic.span = span;
    diagnostics.push_back(std::move(diagnostic));
  }
}

/// A path inside of a spec is part of the spec, so its mistake has a place there.
Checked<GpuSpec> find_gpu_of_spec(const Value* written) {
  if (written == nullptr) return find_gpu(kDefaultGpu);
  if (!is_path(written->text)) return find_gpu(written->text);
  try {
    return find_gpu(path_beside(written->span, written->text));
  } catch (const EnvironmentError& error) {
    return error_at(written->span, error.what(), "a path is relative to the file that names it");
  }
}

void read_gpu(const Value* written, Hardware& hardware, Diagnostics& diagnostics) {
  hardware.assumed = written == nullptr;
  const std::optional<std::string> name = as_text(written);
  if (written != nullptr && (!name || name->empty())) return;
  Checked<GpuSpec> gpu = find_gpu_of_spec(written);
  expect(gpu.ok() || written != nullptr, "the default GPU is in the catalog");
  if (!gpu.ok()) return append_at(written->span, gpu.diagnostics(), diagnostics);
  hardware.gpu = std::move(gpu).value();
}

/// A node's bandwidth is shared evenly.
std::optional<Network> read_network(const Value* written, std::int64_t gpus_per_node) {
  const auto bandwidth = as_quantity(find(written, "bandwidth"), Dimension::byte_rate);
  if (!bandwidth) return std::nullopt;
  const Value* per = find(written, "per");
  const bool of_node = per != nullptr && per->text == "node";
  Network network{.bandwidth = BytesPerSecond(
                      of_node ? *bandwidth / static_cast<double>(gpus_per_node) : *bandwidth),
                  .provenance = Provenance::datasheet};
  if (const auto latency = as_quantity(find(written, "latency"), Dimension::duration)) {
    network.latency = Seconds(*latency);
  }
  return network;
}

void read_price(const Value* written, Hardware& hardware) {
  if (const auto price = as_quantity(written, Dimension::price)) {
    hardware.price = DollarsPerHour(*price);
    hardware.price_source = "hardware.price";
    return;
  }
  const std::optional<Price> listed = find_price(hardware.gpu.slug);
  if (!listed) return;
  hardware.price = listed->price;
  hardware.price_source = listed->provider + ": " + listed->source;
}

}  // namespace

void read_cluster(const ClusterSections& sections, Job& job, Diagnostics& diagnostics) {
  job.parallelism = read_parallelism(sections.parallelism, diagnostics);
  note_given(sections.parallelism, job.given);
  job.parallelism.deepspeed =
      DeepSpeedReader(find(sections.parallelism, "deepspeed"), job.model, diagnostics).read();
  read_ranks(sections, job, diagnostics);
  read_gpu(find(sections.hardware, "gpu"), job.hardware, diagnostics);
  job.hardware.gpus_per_node = as_count(find(sections.hardware, "gpus_per_node")).value_or(8);
  job.hardware.link_domain = as_count(find(sections.hardware, "link_domain"));
  job.hardware.network =
      read_network(find(sections.hardware, "network"), job.hardware.gpus_per_node);
  const Value* link = find(sections.hardware, "link");
  if (link != nullptr && link->text == "pcie") job.hardware.gpu.link_bandwidth.reset();
  if (const auto nvme = as_quantity(find(sections.hardware, "nvme"), Dimension::byte_rate)) {
    job.hardware.nvme = BytesPerSecond(*nvme);
  }
  job.hardware.host_memory = as_bytes(find(sections.hardware, "host_memory"));
  job.hardware.memory = as_bytes(find(sections.hardware, "memory"));
  read_price(find(sections.hardware, "price"), job.hardware);
}

Budget read_budget(const Value* budget) {
  Budget result;
  result.memory = as_bytes(find(budget, "memory"));
  if (const auto time = as_quantity(find(budget, "step_time"), Dimension::duration)) {
    result.step_time = Seconds(*time);
  }
  if (const auto cost = as_quantity(find(budget, "cost_per_billion_tokens"), Dimension::money)) {
    result.cost_per_billion_tokens = Dollars(*cost);
  }
  if (const auto flops = as_quantity(find(budget, "flops"), Dimension::flops)) {
    result.flops = Flops(static_cast<Int128>(std::round(*flops)));
  }
  result.margin = as_quantity(find(budget, "margin"), Dimension::share).value_or(0);
  return result;
}

}  // namespace memest
