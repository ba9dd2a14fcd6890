#include "memest/reader/samples.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace memest {
namespace {

Checked<SampleTable> read_text(const std::string& text) {
  const auto folder = std::filesystem::temp_directory_path() / "memest_samples_test";
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "samples.csv").string();
  std::ofstream(path, std::ios::binary) << text;
  Checked<SampleTable> table = read_samples(path);
  std::filesystem::remove_all(folder);
  return table;
}

TEST_CASE("samples that are written and read are the same", "[reader]") {
  std::vector<Sample> samples;
  const auto add = [&samples](KernelShape shape, double seconds) {
    samples.push_back({.shape = std::move(shape),
                       .seconds = Seconds(seconds),
                       .load = Load::sustained,
                       .gpu = "h100",
                       .source = "a \"quoted\", divided one",
                       .license = "MIT",
                       .file = "samples.csv",
                       .line = static_cast<std::int64_t>(samples.size()) + 2});
  };
  add(MatmulShape{.operand = DType::fp8,
                  .scaling = OperandScaling::block_128,
                  .cast_included = true,
                  .pass = MatmulPass::weight_gradient,
                  .accumulates = true,
                  .batch = 3,
                  .m = 4096,
                  .n = 1024,
                  .k = 512},
      1.25e-4);
  add(MatmulShape{.operand = DType::fp4,
                  .result = DType::bf16,
                  .scaling = OperandScaling::block_16,
                  .cast_included = true,
                  .m = 4096,
                  .n = 1024,
                  .k = 512},
      2e-5);
  add(AttentionShape{.kernel = "fa3",
                     .pass = KernelPass::backward,
                     .causal = false,
                     .batch = 2,
                     .heads = 16,
                     .kv_heads = 4,
                     .seq_len = 2048,
                     .head_dim = 192,
                     .value_head_dim = 128},
      0.1);
  add(StreamShape{.op = StreamOp::silu_mul, .rows = 7, .columns = 9, .bytes = 378}, 1e-6);
  add(CollectiveShape{.op = CollectiveOp::all_to_all, .gpus = 8, .bytes = 1 << 20}, 3e-5);
  add(TransferShape{.path = TransferPath::managed_migration, .bytes = 4096}, 2e-5);
  add(LaunchShape{.path = LaunchPath::graph}, 1.0 / 3e6);
  const std::string text = write_samples(samples);
  const auto table = read_text(text);
  REQUIRE(table.ok());
  CHECK(table.diagnostics().empty());
  const std::vector<Sample> read = table.value().samples();
  REQUIRE(read.size() == samples.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    CHECK(read[i].shape == samples[i].shape);
    CHECK(read[i].seconds.value() == samples[i].seconds.value());
    CHECK(read[i].source == samples[i].source);
    CHECK(read[i].line == samples[i].line);
  }
  CHECK(write_samples(read) == text);
}

TEST_CASE("rows with holes are passed over with their places", "[reader]") {
  const auto table = read_text(
      "op,dtype,m,n,k,seconds\n"
      "gemm,bf16,1024,1024,1024,0.0001\n"
      "gemm,bf16,1024,,1024,0.0001\n"
      "gemm,bf16,1024,1024,1024,-1\n"
      "gemm,bf17,1024,1024,1024,0.0001\n"
      "sort,bf16,1024,1024,1024,0.0001\n");
  REQUIRE(table.ok());
  CHECK(table.value().samples().size() == 1);
  REQUIRE(table.diagnostics().size() == 4);
  CHECK(table.diagnostics()[0].message == "this row has no 'n'");
  CHECK(table.diagnostics()[0].span.line == 3);
  CHECK(table.diagnostics()[1].message == "'-1' is no time of a kernel in seconds");
  CHECK(table.diagnostics()[1].span.column == 26);
  CHECK(table.diagnostics()[2].message == "'bf17' is no element type with a law");
  CHECK(table.diagnostics()[3].message == "no law is about 'sort': 1 row is passed over");
}

TEST_CASE("numbers that are none are passed over too", "[reader]") {
  const auto table = read_text(
      "op,dtype,m,n,k,seconds\n"
      "gemm,bf16,1024,1024,1024,0.0001\n"
      "gemm,bf16,0,1024,1024,0.0001\n"
      "gemm,bf16,1024,1024,1024,nan\n"
      "gemm,bf16,1024,1024,1024,inf\n"
      "gemm,bf16,1024,1024,1024,0\n");
  REQUIRE(table.ok());
  CHECK(table.value().samples().size() == 1);
  REQUIRE(table.diagnostics().size() == 4);
  CHECK(table.diagnostics()[0].message == "'0' is no positive whole number");
  CHECK(table.diagnostics()[1].message == "'nan' is no time of a kernel in seconds");
  CHECK(table.diagnostics()[2].span.line == 5);
  CHECK(table.diagnostics()[3].message == "'0' is no time of a kernel in seconds");
}

TEST_CASE("no product writes nvfp4, and an operand in it writes bf16 where nothing else is said",
          "[reader]") {
  const auto table = read_text(
      "op,dtype,out_dtype,m,n,k,seconds\n"
      "gemm,nvfp4,,1024,1024,1024,0.0001\n"
      "gemm,nvfp4,nvfp4,1024,1024,1024,0.0001\n");
  REQUIRE(table.ok());
  REQUIRE(table.value().samples().size() == 1);
  const auto product = std::get<MatmulShape>(table.value().samples().front().shape);
  CHECK(product.operand == DType::fp4);
  CHECK(product.scaling == OperandScaling::block_16);
  CHECK(product.result == DType::bf16);
  REQUIRE(table.diagnostics().size() == 1);
  CHECK(table.diagnostics()[0].message == "'nvfp4' is a type of operands alone");
  CHECK(table.diagnostics()[0].span.line == 3);
}

TEST_CASE("a grouped product is as many products as groups", "[reader]") {
  const auto table = read_text(
      "op,dtype,pass,groups,batch,m,n,k,seconds\ngrouped_gemm,bf16,wgrad,40,1,616,3072,5120,0."
      "005\n");
  REQUIRE(table.ok());
  const auto product = std::get<MatmulShape>(table.value().samples().at(0).shape);
  CHECK(product.batch == 40);
  CHECK(product.pass == MatmulPass::weight_gradient);
}

TEST_CASE("a file without its columns, without a good row or with an open quote is refused",
          "[reader]") {
  const auto message = [](const std::string& text) {
    const auto table = read_text(text);
    REQUIRE_FALSE(table.ok());
    return table.diagnostics().front().message;
  };
  CHECK(message("op,m\ngemm,1\n") == "samples need a column 'seconds'");
  CHECK(message("m,seconds\n1,2\n") == "samples need a column 'op'");
  CHECK(message("op,seconds\n") == "no row follows");
  CHECK(message("op,seconds\nlaunch-graph,0\n") == "'0' is no time of a kernel in seconds");
  CHECK(message("op,seconds\n\"launch,1\n") == "a quote that does not end on its line");
}

}  // namespace
}  // namespace memest
