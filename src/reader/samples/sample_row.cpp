#include "reader/samples/sample_row.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <variant>

#include "reader/text/scalar.hpp"

namespace memest {
namespace {

/// A time longer than this is none of a kernel: the column has another unit.
constexpr double kLongestSeconds = 3600;

/// The cells of one row as values. After a fault nothing more is said of the row.
class Cells {
 public:
  Cells(const CsvTable& table, const CsvRow& row, Diagnostics& warnings)
      : table_(table), row_(row), warnings_(warnings) {}

  [[nodiscard]] bool failed() const { return failed_; }

  /// The first of `columns` that the file has; empty where none is filled.
  std::string text(std::initializer_list<std::string_view> columns) const {
    const CsvCell* cell = find(columns);
    return cell == nullptr ? "" : cell->text;
  }

  /// A positive whole number; `fallback` where there is none and one is given, else a hole.
  std::int64_t count(std::initializer_list<std::string_view> columns, std::int64_t fallback = 0) {
    const CsvCell* cell = find(columns);
    if (cell == nullptr) {
      if (fallback == 0)
        fault(row_.span, "this row has no '" + std::string(*columns.begin()) + "'");
      return fallback;
    }
    const std::optional<std::int64_t> value = integer_of(cell->text);
    if (!value || *value <= 0) {
      fault(cell->span, quote(cell->text) + " is no positive whole number");
      return 1;
    }
    return *value;
  }

  bool flag(std::string_view column) const { return text({column}) == "1"; }

  /// Megahertz; 0 where the file does not say them.
  double clock(std::string_view column) {
    const CsvCell* cell = find({column});
    if (cell == nullptr) return 0;
    const std::optional<double> value = number_of(cell->text);
    if (!value || *value < 0) fault(cell->span, quote(cell->text) + " is no clock in MHz");
    return value.value_or(0);
  }

  double seconds() {
    const CsvCell* cell = find({"seconds"});
    if (cell == nullptr) {
      fault(row_.span, "this row has no 'seconds'");
      return 1;
    }
    const std::optional<double> value = number_of(cell->text);
    if (!value || *value <= 0 || *value > kLongestSeconds) {
      fault(cell->span, quote(cell->text) + " is no time of a kernel in seconds");
      return 1;
    }
    return *value;
  }

  void fault(const SourceSpan& span, const std::string& message) {
    if (!failed_) warnings_.push_back({Severity::warning, span, message, "", false});
    failed_ = true;
  }
  void fault(std::string_view column, const std::string& message) {
    const CsvCell* cell = find({column});
    fault(cell == nullptr ? row_.span : cell->span, message);
  }

 private:
  [[nodiscard]] const CsvCell* find(std::initializer_list<std::string_view> columns) const {
    for (const std::string_view column : columns) {
      const CsvCell* cell = table_.cell(row_, column);
      if (cell != nullptr && !cell->text.empty()) return cell;
    }
    return nullptr;
  }

  const CsvTable& table_;
  const CsvRow& row_;
  Diagnostics& warnings_;
  bool failed_ = false;
};

struct OperandWord {
  std::string_view text;
  DType type;
  OperandScaling scaling = OperandScaling::none;
  bool tensor_float = false;
};
constexpr std::array kOperandWords = {
    OperandWord{"bf16", DType::bf16},
    OperandWord{"fp16", DType::fp16},
    OperandWord{"fp32", DType::fp32},
    OperandWord{"tf32", DType::fp32, OperandScaling::none, true},
    OperandWord{"fp8", DType::fp8, OperandScaling::per_tensor},
    // A scale for 128 elements as in DeepSeek V3, or for 16 as in NVFP4.
    OperandWord{"fp8_block128", DType::fp8, OperandScaling::block_128},
    OperandWord{"fp8_static", DType::fp8, OperandScaling::fixed},
    OperandWord{"nvfp4", DType::fp4, OperandScaling::block_16},
};

template <class Words>
const typename Words::value_type* word_of(const Words& words, std::string_view text) {
  const auto found =
      std::find_if(words.begin(), words.end(), [text](const auto& w) { return w.text == text; });
  return found == words.end() ? nullptr : &*found;
}

OperandWord operand_at(Cells& cells) {
  const std::string text = cells.text({"dtype"});
  const OperandWord* word = word_of(kOperandWords, text);
  if (word != nullptr) return *word;
  cells.fault("dtype", text.empty() ? "this row has no 'dtype'"
                                    : quote(text) + " is no element type with a law");
  return kOperandWords.front();
}

DType result_at(Cells& cells, DType operand) {
  const std::string text = cells.text({"out_dtype"});
  const bool narrow = operand == DType::fp8 || operand == DType::fp4;
  if (text.empty()) return narrow ? DType::bf16 : operand;
  const OperandWord* word = word_of(kOperandWords, text);
  if (word != nullptr && word->type != DType::fp4) return word->type;
  cells.fault("out_dtype", quote(text) + (word == nullptr ? " is no element type"
                                                          : " is a type of operands alone"));
  return DType::bf16;
}

struct PassWord {
  std::string_view text;
  MatmulPass matmul;
  KernelPass kernel;
};
constexpr std::array kPassWords = {
    PassWord{"", MatmulPass::forward, KernelPass::forward},
    PassWord{"forward", MatmulPass::forward, KernelPass::forward},
    PassWord{"fwd", MatmulPass::forward, KernelPass::forward},
    PassWord{"fprop", MatmulPass::forward, KernelPass::forward},
    PassWord{"data-gradient", MatmulPass::data_gradient, KernelPass::backward},
    PassWord{"dgrad", MatmulPass::data_gradient, KernelPass::backward},
    PassWord{"weight-gradient", MatmulPass::weight_gradient, KernelPass::backward},
    PassWord{"wgrad", MatmulPass::weight_gradient, KernelPass::backward},
    PassWord{"backward", MatmulPass::data_gradient, KernelPass::backward},
    PassWord{"bwd", MatmulPass::data_gradient, KernelPass::backward},
};

PassWord pass_at(Cells& cells) {
  const PassWord* word = word_of(kPassWords, cells.text({"pass"}));
  if (word == nullptr) cells.fault("pass", quote(cells.text({"pass"})) + " is no pass");
  return word == nullptr ? kPassWords.front() : *word;
}

KernelShape matmul_at(Cells& cells) {
  const OperandWord operand = operand_at(cells);
  return MatmulShape{.operand = operand.type,
                     .result = result_at(cells, operand.type),
                     .scaling = operand.scaling,
                     .cast_included = cells.flag("quant_included"),
                     .tensor_float = operand.tensor_float,
                     .pass = pass_at(cells).matmul,
                     .accumulates = cells.flag("accumulate"),
                     .batch = cells.count({"batch", "b"}, 1),
                     .m = cells.count({"m"}),
                     .n = cells.count({"n"}),
                     .k = cells.count({"k"})};
}

/// A product for each expert, balanced.
KernelShape grouped_matmul_at(Cells& cells) {
  KernelShape shape = matmul_at(cells);
  std::get<MatmulShape>(shape).batch = cells.count({"groups"});
  return shape;
}

KernelShape attention_at(Cells& cells, KernelPass pass) {
  const std::int64_t heads = cells.count({"heads"});
  const std::int64_t head_dim = cells.count({"head_dim", "qk_dim"});
  return AttentionShape{
      .kernel = cells.text({"kernel"}),
      .dtype = operand_at(cells).type,
      .pass = pass,
      .causal = cells.flag("causal"),
      .batch = cells.count({"batch"}, 1),
      .heads = heads,
      .kv_heads = cells.count({"kv_heads"}, std::max<std::int64_t>(heads, 1)),
      .seq_len = cells.count({"seq", "seq_len"}),
      .head_dim = head_dim,
      .value_head_dim = cells.count({"v_dim"}, std::max<std::int64_t>(head_dim, 1))};
}
KernelShape attention_forward_at(Cells& cells) { return attention_at(cells, KernelPass::forward); }
KernelShape attention_backward_at(Cells& cells) {
  return attention_at(cells, KernelPass::backward);
}

/// `passes`: how often an element is read or written, where the file does not say the bytes.
template <StreamOp kOp, int kPasses>
KernelShape stream_at(Cells& cells) {
  const OperandWord operand = operand_at(cells);
  StreamShape shape{.op = kOp,
                    .pass = pass_at(cells).kernel,
                    .dtype = operand.type,
                    .rows = cells.count({"m", "rows", "b"}, 1),
                    .columns = cells.count({"n", "columns"}, 1)};
  shape.bytes =
      cells.count({"bytes"}, kPasses * shape.rows * shape.columns * size_of(operand.type));
  return shape;
}

KernelShape cast_at(Cells& cells) {
  StreamShape shape{.op = StreamOp::cast,
                    .rows = cells.count({"m", "rows"}),
                    .columns = cells.count({"n", "columns"})};
  shape.bytes = cells.count(
      {"bytes"}, shape.rows * shape.columns * (size_of(DType::bf16) + size_of(DType::fp8)));
  return shape;
}

template <CollectiveOp kOp>
KernelShape collective_at(Cells& cells) {
  return CollectiveShape{
      .op = kOp, .gpus = cells.count({"gpus"}), .bytes = cells.count({"message_bytes", "bytes"})};
}

template <TransferPath kPath>
KernelShape transfer_at(Cells& cells) {
  return TransferShape{.path = kPath, .bytes = cells.count({"bytes"})};
}

template <LaunchPath kPath>
KernelShape launch_at(Cells&) {
  return LaunchShape{.path = kPath};
}

/// An operation by the name that a file gives it.
struct OpWord {
  std::string_view text;
  KernelShape (*shape_of)(Cells& cells);
};
constexpr std::array kOpWords = {
    OpWord{"gemm", matmul_at},
    OpWord{"linear", matmul_at},
    OpWord{"bmm", matmul_at},
    OpWord{"grouped_gemm", grouped_matmul_at},
    OpWord{"attention_fwd", attention_forward_at},
    OpWord{"attention_bwd", attention_backward_at},
    OpWord{"scaled_cast_bf16_to_fp8", cast_at},
    OpWord{"cast", cast_at},
    OpWord{"read", stream_at<StreamOp::read, 1>},
    OpWord{"write", stream_at<StreamOp::write, 1>},
    OpWord{"copy", stream_at<StreamOp::copy, 2>},
    OpWord{"scale", stream_at<StreamOp::scale, 2>},
    OpWord{"add", stream_at<StreamOp::add, 3>},
    // STREAM's four: copy a = b, scale a = s·b, add a = b + c, triad a = b + s·c.
    OpWord{"triad", stream_at<StreamOp::triad, 3>},
    OpWord{"by-element", stream_at<StreamOp::by_element, 2>},
    OpWord{"gelu", stream_at<StreamOp::gelu, 2>},
    OpWord{"silu-mul", stream_at<StreamOp::silu_mul, 3>},
    OpWord{"dropout", stream_at<StreamOp::dropout, 2>},
    OpWord{"softmax", stream_at<StreamOp::softmax, 2>},
    OpWord{"ln", stream_at<StreamOp::layernorm, 2>},
    OpWord{"layernorm", stream_at<StreamOp::layernorm, 2>},
    OpWord{"rmsnorm", stream_at<StreamOp::rmsnorm, 2>},
    OpWord{"cross-entropy", stream_at<StreamOp::cross_entropy, 1>},
    OpWord{"embedding", stream_at<StreamOp::embedding, 2>},
    OpWord{"rotary", stream_at<StreamOp::rotary, 2>},
    // Reads weight, gradient, exp_avg and exp_avg_sq, writes all but the gradient.
    OpWord{"adamw", stream_at<StreamOp::adamw, 7>},
    OpWord{"all_reduce", collective_at<CollectiveOp::all_reduce>},
    OpWord{"all_gather", collective_at<CollectiveOp::all_gather>},
    OpWord{"reduce_scatter", collective_at<CollectiveOp::reduce_scatter>},
    OpWord{"alltoall", collective_at<CollectiveOp::all_to_all>},
    OpWord{"all_to_all", collective_at<CollectiveOp::all_to_all>},
    OpWord{"host-to-device-pinned", transfer_at<TransferPath::host_to_device_pinned>},
    OpWord{"device-to-host-pinned", transfer_at<TransferPath::device_to_host_pinned>},
    OpWord{"host-to-device-pageable", transfer_at<TransferPath::host_to_device_pageable>},
    OpWord{"device-to-host-pageable", transfer_at<TransferPath::device_to_host_pageable>},
    OpWord{"managed-migration", transfer_at<TransferPath::managed_migration>},
    OpWord{"launch-stream", launch_at<LaunchPath::stream>},
    OpWord{"launch-graph", launch_at<LaunchPath::graph>},
};

}  // namespace

std::optional<Sample> sample_of(const CsvTable& table, const CsvRow& row, Diagnostics& warnings,
                                std::vector<const CsvCell*>& unknown_ops) {
  const CsvCell* op = table.cell(row, "op");
  const OpWord* word = op == nullptr ? nullptr : word_of(kOpWords, op->text);
  if (word == nullptr) {
    if (op != nullptr) unknown_ops.push_back(op);
    return std::nullopt;
  }
  Cells cells(table, row, warnings);
  Sample sample;
  sample.shape = word->shape_of(cells);
  sample.seconds = Seconds(cells.seconds());
  sample.load = cells.text({"load"}) == name_of(Load::sustained) ? Load::sustained : Load::burst;
  sample.clock_mhz = cells.clock("clock_mhz");
  sample.throttled = cells.flag("throttled");
  sample.gpu = cells.text({"sku", "gpu"});
  sample.source = cells.text({"source"});
  sample.license = cells.text({"license"});
  const std::string& path = row.span.source->name;
  sample.file = path.substr(path.find_last_of('/') + 1);
  sample.line = row.span.line;
  if (cells.failed()) return std::nullopt;
  return sample;
}

std::string_view operand_word(const MatmulShape& shape) {
  const auto* const found =
      std::find_if(kOperandWords.begin(), kOperandWords.end(), [&shape](const OperandWord& word) {
        return word.type == shape.operand && word.scaling == shape.scaling &&
               word.tensor_float == shape.tensor_float;
      });
  return found == kOperandWords.end() ? name_of(shape.operand) : found->text;
}

MatmulShape operand_of(std::string_view word) {
  const OperandWord* found = word_of(kOperandWords, word);
  expect(found != nullptr, "an operand that the file's check accepts");
  return {.operand = found->type, .scaling = found->scaling, .tensor_float = found->tensor_float};
}

}  // namespace memest
