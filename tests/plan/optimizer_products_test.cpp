// Matrix products of optimizer steps: their FLOPs by hand, and their time by the laws.
#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <variant>
#include <vector>

#include "jobs.hpp"
#include "memest/graph/lower.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/time/kernel_law.hpp"
#include "memest/time/step_time.hpp"

namespace memest {
namespace {

using Catch::Approx;

Graph graph_of(const Job& job) { return std::get<Graph>(lower(job.model, policy_of(job))); }

double product_flops(const Job& job) {
  const Graph graph = graph_of(job);
  double flops = 0;
  for (const OptimizerProduct& product : work_of(graph, job).optimizer_products) {
    flops += product.times * flops_of(product.shape);
  }
  return flops;
}

/// A stack of linear layers without bias.
Job layers_of(const std::string& optimizer, const std::string& layers,
              const std::string& rest = "hardware: {gpu: h100-sxm-80gb}\n") {
  return test::job_from("model: {layers: [" + layers +
                        "], loss: mean-square}\n"
                        "training: {seq_len: 64, precision: fp32, optimizer: " +
                        optimizer + "}\n" + rest);
}

/// [out, in] = [rows, columns] as PyTorch stores a linear layer.
std::string linear(int in, int out, bool bias = false) {
  return "{linear: {in: " + std::to_string(in) + ", out: " + std::to_string(out) +
         ", bias: " + (bias ? "true" : "false") + "}}";
}

TEST_CASE("Muon's Newton-Schulz: five times 4 s² l + 2 s³ of every matrix", "[plan]") {
  for (const int in : {64, 300, 2048}) {
    for (const int out : {64, 700, 12288}) {
      const double s = std::min(in, out);
      const double l = std::max(in, out);
      const double matrix = 5 * (4 * s * s * l + 2 * s * s * s);
      CHECK(product_flops(layers_of("muon", linear(in, out))) == Approx(matrix));
      // Vectors are AdamW's.
      CHECK(product_flops(layers_of("muon", linear(in, out, true))) == Approx(matrix));
      CHECK(product_flops(layers_of("adamw", linear(in, out))) == 0);
    }
  }
}

TEST_CASE("Shampoo's and SOAP's products by hand", "[plan]") {
  const double n = 512;  // rows
  const double m = 128;
  const double kBasis = (3 * 2 + 8.0 / 3.0) / 10;  // three products and a QR, every tenth step
  const double statistics = 2 * n * n * m + 2 * m * m * n;
  CHECK(product_flops(layers_of("shampoo", linear(128, 512))) ==
        Approx(2 * statistics + 11 * (n * n * n + m * m * m)));
  CHECK(product_flops(layers_of("soap", linear(128, 512))) ==
        Approx(5 * statistics + kBasis * (n * n * n + m * m * m)));
  // A dimension above 10,000 has no factor.
  const double rows = 16384;
  CHECK(product_flops(layers_of("soap", linear(128, 16384))) ==
        Approx(5 * 2 * m * m * rows + kBasis * m * m * m));
}

TEST_CASE("the products of a step are priced by the laws", "[plan]") {
  const auto time_of = [](const std::string& optimizer, const std::string& rest) {
    const Job job = test::llama("seq_len: 2048, precision: bf16, optimizer: " + optimizer, rest);
    const Graph graph = graph_of(job);
    return std::get<TimeEstimate>(estimate_step_time(graph, job, count_flops(graph, job)));
  };
  const std::string alone = "hardware: {gpu: h100-sxm-80gb}\n";
  const TimeEstimate muon = time_of("muon", alone);
  const auto products = std::find_if(muon.ops.begin(), muon.ops.end(), [](const OpTime& op) {
    return op.block == "optimizer" && op.op == "products";
  });
  REQUIRE(products != muon.ops.end());
  CHECK(products->bound == Bound::compute);
  CHECK(products->intensity > 100);
  CHECK(products->seconds.value() >= products->flops / 989e12);
  CHECK(muon.step - products->seconds < time_of("adamw", alone).step);
  // Ranks that share the states share the products.
  const TimeEstimate shared = time_of("muon",
                                      "parallelism: {data: 8, zero: 3, fsdp: {version: 2}}\n"
                                      "hardware: {gpu: h100-sxm-80gb, count: 8}\n");
  const auto part = std::find_if(shared.ops.begin(), shared.ops.end(), [](const OpTime& op) {
    return op.block == "optimizer" && op.op == "products";
  });
  REQUIRE(part != shared.ops.end());
  CHECK(part->flops == Approx(products->flops / 8));
}

}  // namespace
}  // namespace memest
