// Samples as the file that read_samples() reads.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "memest/reader/samples.hpp"
#include "reader/samples/sample_row.hpp"

namespace memest {
namespace {

constexpr std::array<std::string_view, 26> kColumns = {
    "sku",      "op",        "pass",      "dtype",  "out_dtype", "quant_included", "accumulate",
    "batch",    "m",         "n",         "k",      "heads",     "kv_heads",       "seq",
    "head_dim", "v_dim",     "causal",    "kernel", "bytes",     "gpus",           "seconds",
    "load",     "clock_mhz", "throttled", "source", "license"};

/// A row under construction.
class RowWriter {
 public:
  void set(std::string_view column, std::string_view text) {
    const auto at = std::find(kColumns.begin(), kColumns.end(), column) - kColumns.begin();
    cells_[static_cast<std::size_t>(at)] = text;
  }
  void set(std::string_view column, std::int64_t count) {
    set(column, std::string_view(std::to_string(count)));
  }
  void set(std::string_view column, bool flag) { set(column, std::string_view(flag ? "1" : "0")); }

  [[nodiscard]] std::string line() const {
    std::string result;
    for (std::size_t i = 0; i < cells_.size(); ++i) {
      if (i > 0) result += ',';
      result += escaped(cells_[i]);
    }
    return result + '\n';
  }

 private:
  static std::string escaped(const std::string& cell) {
    if (cell.find_first_of(",\"") == std::string::npos) return cell;
    std::string result = "\"";
    for (const char c : cell) {
      if (c == '"') result += '"';
      result += c;
    }
    return result + '"';
  }

  std::array<std::string, kColumns.size()> cells_;
};

/// Fills in what is the shape's own.
struct ShapeCells {
  RowWriter& row;

  void operator()(const MatmulShape& shape) const {
    row.set("op", std::string_view("gemm"));
    row.set("pass", name_of(shape.pass));
    row.set("dtype", operand_word(shape));
    row.set("out_dtype", name_of(shape.result));
    row.set("quant_included", shape.cast_included);
    row.set("accumulate", shape.accumulates);
    row.set("batch", shape.batch);
    row.set("m", shape.m);
    row.set("n", shape.n);
    row.set("k", shape.k);
  }
  void operator()(const AttentionShape& shape) const {
    const bool forward = shape.pass == KernelPass::forward;
    row.set("op", std::string_view(forward ? "attention_fwd" : "attention_bwd"));
    row.set("dtype", name_of(shape.dtype));
    row.set("batch", shape.batch);
    row.set("heads", shape.heads);
    row.set("kv_heads", shape.kv_heads);
    row.set("seq", shape.seq_len);
    row.set("head_dim", shape.head_dim);
    row.set("v_dim", shape.value_head_dim);
    row.set("causal", shape.causal);
    row.set("kernel", std::string_view(shape.kernel));
  }
  void operator()(const StreamShape& shape) const {
    row.set("op", name_of(shape.op));
    row.set("pass", name_of(shape.pass));
    row.set("dtype", name_of(shape.dtype));
    row.set("m", shape.rows);
    row.set("n", shape.columns);
    row.set("bytes", shape.bytes);
  }
  void operator()(const CollectiveShape& shape) const {
    row.set("op", name_of(shape.op));
    row.set("gpus", shape.gpus);
    row.set("bytes", shape.bytes);
  }
  void operator()(const TransferShape& shape) const {
    row.set("op", name_of(shape.path));
    row.set("bytes", shape.bytes);
  }
  void operator()(const LaunchShape& shape) const {
    row.set("op", std::string_view("launch-" + std::string(name_of(shape.path))));
  }
};

/// The shortest text that reads back as the same number.
std::string exact_text(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return std::string(digits.data(), end.ptr);
}

}  // namespace

std::string sample_head() {
  std::string text;
  for (const std::string_view column : kColumns) {
    text += text.empty() ? "" : ",";
    text += column;
  }
  return text + '\n';
}

std::string sample_line(const Sample& sample) {
  RowWriter row;
  std::visit(ShapeCells{row}, sample.shape);
  row.set("sku", std::string_view(sample.gpu));
  row.set("seconds", std::string_view(exact_text(sample.seconds.value())));
  row.set("load", name_of(sample.load));
  if (sample.clock_mhz > 0) row.set("clock_mhz", std::string_view(exact_text(sample.clock_mhz)));
  if (sample.throttled) row.set("throttled", true);
  row.set("source", std::string_view(sample.source));
  row.set("license", std::string_view(sample.license));
  return row.line();
}

std::string write_samples(const std::vector<Sample>& samples) {
  std::string text = sample_head();
  for (const Sample& sample : samples) text += sample_line(sample);
  return text;
}

}  // namespace memest
