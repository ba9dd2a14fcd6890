// What a spec says of Transformer Engine's products in 8 and 4 bits, and where it is refused.
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>

#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

Checked<Job> read_text(const std::string& training, const std::string& gpu = "b200-sxm-180gb",
                       const std::string& layout = "distributed_optimizer: true") {
  const std::string text =
      "model: {family: decoder, layers: 4, hidden_size: 128, heads: 4, ffn_size: 256, vocab_size: "
      "1024, activation: swiglu, norm: rmsnorm, position: rope}\ntraining: {seq_len: 128, " +
      training + "}\nparallelism: {data: 8, " + layout + "}\nhardware: {gpu: " + gpu +
      ", count: 8}\n";
  return read_job(std::make_shared<const SourceText>(SourceText{"spec.yaml", text}));
}

TeLinears linears_of(const std::string& training) {
  const Checked<Job> job = read_text("implementation: megatron, " + training);
  REQUIRE(job.ok());
  return job.value().training->te_linears.value();
}

std::string error_of(const std::string& training, const std::string& gpu = "b200-sxm-180gb",
                     const std::string& layout = "distributed_optimizer: true") {
  const Checked<Job> job = read_text(training, gpu, layout);
  if (job.ok()) return "ok";
  const Diagnostic& first = job.diagnostics().front();
  return first.message + " (" + first.hint + ")";
}

}  // namespace

TEST_CASE("a precision is a recipe of Transformer Engine, and float8 says the rest") {
  CHECK_FALSE(read_text("implementation: megatron").value().training->te_linears);
  CHECK(linears_of("precision: fp8").recipe == TeRecipe::delayed);
  CHECK(linears_of("precision: fp8-current").recipe == TeRecipe::current);
  CHECK(linears_of("precision: fp8-blockwise").recipe == TeRecipe::blockwise);
  CHECK(linears_of("precision: mxfp8").recipe == TeRecipe::mxfp8);
  CHECK(linears_of("precision: nvfp4").recipe == TeRecipe::nvfp4);
  CHECK(linears_of("precision: mxfp8, float8: {param_gather: true}") ==
        TeLinears{.recipe = TeRecipe::mxfp8, .param_gather = true});
}

TEST_CASE("beside another precision float8 says the recipe, in Megatron's words") {
  CHECK(linears_of("precision: megatron-bf16-grad, float8: {}").recipe == TeRecipe::delayed);
  CHECK(linears_of("precision: megatron-bf16-grad, float8: {recipe: tensorwise, "
                   "first_layers_bf16: 1, last_layers_bf16: 2}") ==
        TeLinears{.recipe = TeRecipe::current, .first_bf16 = 1, .last_bf16 = 2});
  const Checked<Job> job =
      read_text("implementation: megatron, precision: megatron-bf16-grad, float8: {}");
  CHECK(job.value().training->recipe.gradients == DType::bf16);
}

TEST_CASE("words of torchao and of Megatron are told apart") {
  CHECK(error_of("implementation: megatron, float8: {recipe: rowwise}") ==
        "Transformer Engine has no recipe 'rowwise' (Megatron's are delayed, tensorwise, "
        "blockwise, mxfp8 and nvfp4)");
  CHECK(error_of("implementation: megatron, float8: {all_gather: true}") ==
        "'all_gather' is of torchao's linear layers (leave it out under Megatron)");
  CHECK(error_of("implementation: megatron, precision: mxfp8, float8: {recipe: blockwise}") ==
        "the precision 'mxfp8' is the recipe 'mxfp8' (leave one of them out)");
  CHECK(error_of("implementation: torchtitan, float8: {recipe: mxfp8}", "b200-sxm-180gb",
                 "zero: 0") ==
        "torchao has no recipe 'mxfp8' (its are tensorwise, rowwise and rowwise_with_gw_hp)");
  CHECK(error_of("implementation: torchtitan, float8: {param_gather: true}", "b200-sxm-180gb",
                 "zero: 0") ==
        "'param_gather' is of Transformer Engine's layers in Megatron (leave it out, or set "
        "'implementation' to megatron)");
  CHECK(error_of("implementation: transformers, precision: mxfp8", "b200-sxm-180gb", "zero: 0") ==
        "this precision is that of Transformer Engine's layers in Megatron (use 'implementation: "
        "megatron', or another precision)");
}

TEST_CASE("a GPU without a recipe's products, and what Megatron refuses, are named") {
  const std::string megatron = "implementation: megatron, precision: ";
  CHECK(error_of(megatron + "fp8", "a100-sxm-80gb") ==
        "fp8 products run from compute capability 8.9 on (use the precision megatron)");
  CHECK(error_of(megatron + "mxfp8", "h100-sxm-80gb") ==
        "MXFP8 products run from compute capability 10.0 on (use fp8, fp8-current or "
        "fp8-blockwise)");
  CHECK(error_of(megatron + "nvfp4", "h100-sxm-80gb") ==
        "NVFP4 products run from compute capability 10.0 on (use fp8, fp8-current or "
        "fp8-blockwise)");
  CHECK(error_of(megatron + "mxfp8", "rtx-pro-6000-server") ==
        "Transformer Engine 2.11 has no MXFP8 on compute capability 12.0 (use fp8 or fp8-current)");
  CHECK(error_of(megatron + "fp8, float8: {first_layers_bf16: 1}") ==
        "delayed scaling leaves no layers in bf16 (set 'recipe' to tensorwise, or leave it out)");
  CHECK(error_of(megatron + "nvfp4, float8: {param_gather: true}") ==
        "weights that live in fp4 are not available yet (leave 'param_gather' out)");
  CHECK(error_of(megatron + "mxfp8, float8: {param_gather: true}", "b200-sxm-180gb", "zero: 0") ==
        "Megatron's distributed optimizer alone gathers weights that live in fp8 (write "
        "'distributed_optimizer: true' in 'parallelism')");
  CHECK(error_of("implementation: {name: megatron, layers: local}, precision: mxfp8") ==
        "Megatron's local layers multiply in 16 bits (leave 'layers: local' out, or use the "
        "precision megatron)");
  CHECK(error_of("implementation: {name: megatron, transformer_engine: 2.2}, precision: nvfp4") ==
        "Transformer Engine 2.2 has neither blockwise nor NVFP4 (write 'transformer_engine: 2.9', "
        "or leave it out)");
}

}  // namespace memest
