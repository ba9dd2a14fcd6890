// Counts that people quote, from specs small enough to count by hand.
#include "memest/graph/parameters.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <utility>
#include <vector>

#include "memest/spec/inventory.hpp"
#include "memest/units/int128.hpp"
#include "models.hpp"

namespace memest {
namespace {

/// Two layers of hidden size 8, two heads of four channels, feed-forward of 16 with a gate, 10
/// words.
DecoderSpec small_decoder() {
  DecoderSpec decoder;
  decoder.hidden_size = 8;
  decoder.embedding_size = 8;
  decoder.vocab_size = 10;
  decoder.kinds = {LayerKind{.feed_forward = DenseFeedForward{.size = 16}}};
  decoder.order = {{0, 2}};
  decoder.attention = SoftmaxAttention{.heads = 2, .kv_heads = 1, .head_dim = 4};
  decoder.position = RotaryPosition{.rotary_dim = 4};
  return decoder;
}

ParameterCounts counts_of(const DecoderSpec& decoder) {
  return count_parameters({"small", "", Family::decoder, decoder});
}

/// The names of all tensors, in the order of their placement.
std::vector<std::string> placement_of(const Inventory& inventory) {
  std::vector<std::string> names;
  for (const PlacedTensor& placed : tensors_in_order(inventory)) {
    names.push_back(placed.buffer ? inventory.buffers[placed.row].name
                                  : inventory.parameters[placed.row].name);
  }
  return names;
}

// q and output 8x8, k and v 4x8; gate, up and down 16x8; two norms of 8
constexpr std::int64_t kMatricesOfLayer = 2 * 64 + 2 * 32 + 3 * 128;
constexpr std::int64_t kLayer = kMatricesOfLayer + 2 * 8;

}  // namespace

TEST_CASE("a decoder's parameters are those of its parts") {
  const ParameterCounts counts = counts_of(small_decoder());
  CHECK(counts.total == 80 + 2 * kLayer + 8 + 80);
  CHECK(counts.trainable == counts.total);
  CHECK(counts.active == counts.total);
  CHECK(counts.matmul == 2 * kMatricesOfLayer + 80);
  CHECK(counts.embedding == 80);
  CHECK(counts.tensors == 1 + 2 * 9 + 1 + 1);
  CHECK(counts.largest == 128);
  CHECK(counts.buffers.value() == 2 * 2 * 4);  // frequencies and their original, 2 of fp32 each
}

TEST_CASE("a tied head is counted once and contracts all the same") {
  DecoderSpec decoder = small_decoder();
  const ParameterCounts untied = counts_of(decoder);
  decoder.tied_embeddings = true;
  const ParameterCounts tied = counts_of(decoder);
  CHECK(tied.total == untied.total - 80);
  CHECK(tied.tensors == untied.tensors - 1);
  CHECK(tied.matmul == untied.matmul);
}

TEST_CASE("of experts a token uses top-k") {
  DecoderSpec decoder = small_decoder();
  decoder.kinds = {
      LayerKind{.feed_forward = MixtureOfExperts{.experts = 4, .top_k = 1, .expert_size = 16}}};
  const ParameterCounts counts = counts_of(decoder);
  const std::int64_t router = 4 * 8;
  CHECK(counts.total == 80 + 2 * (kLayer + 3 * 384 + router) + 8 + 80);
  CHECK(counts.active == counts.total - 2 * 3 * 384);
  CHECK(counts.active_matmul == counts.matmul - 2 * 3 * 384);
  CHECK(counts.largest == 4 * 2 * 16 * 8);  // gate and up of all experts are one tensor
}

TEST_CASE("other heads stand in the language model's place") {
  DecoderSpec decoder = small_decoder();
  decoder.head = DecoderHead::classification;
  decoder.labels = 3;
  CHECK(counts_of(decoder).total == 80 + 2 * kLayer + 8 + 24);
  decoder.head_bias = true;
  CHECK(counts_of(decoder).total == 80 + 2 * kLayer + 8 + 27);
  decoder.head = DecoderHead::none;
  CHECK(counts_of(decoder).total == 80 + 2 * kLayer + 8);
}

TEST_CASE("a layer list's parameters follow its repeats") {
  const LayerList layers{{{1, {EmbeddingLayer{100, 4}}},
                          {3,
                           {LinearLayer{4, 6, true}, ActivationLayer{}, LinearLayer{6, 4, false},
                            NormLayer{NormKind::rmsnorm, 4, true}, DropoutLayer{}}},
                          {1, {NormLayer{NormKind::layernorm, 4, true}, SoftmaxLayer{}}}}};
  const ParameterCounts counts = count_parameters({"list", "", Family::layer_list, layers});
  CHECK(counts.total == 400 + 3 * (30 + 24 + 4) + 8);
  CHECK(counts.matmul == 3 * 48);
  CHECK(counts.embedding == 400);
  CHECK(counts.tensors == 1 + 3 * 4 + 2);
  CHECK(counts.buffers.value() == 0);
}

TEST_CASE("frozen tables are parameters that are not trained") {
  const Inventory inventory{.parameters = {{.name = "a", .shape = {5, 2}, .trainable = false},
                                           {.name = "b", .shape = {3}}},
                            .buffers = {{.name = "ids", .shape = {1, 4}, .dtype = DType::int64}}};
  const ParameterCounts counts = count_parameters({"frozen", "", Family::encoder, inventory});
  CHECK(counts.total == 13);
  CHECK(counts.trainable == 3);
  CHECK(counts.buffers.value() == 32);
}

TEST_CASE("an adapter's matrices stand behind the frozen one of every target") {
  ModelSpec model = gpt2();
  model.adapter = Adapter{.rank = 8, .targets = {"c_attn"}, .whole_modules = {}};
  const ParameterCounts counts = count_parameters(model);
  CHECK(counts.trainable == 12 * 8 * (768 + 3 * 768));
  CHECK(counts.total == 124'439'808 + counts.trainable);
  std::vector<std::string> names;
  for (const ParameterTensor& tensor : parameters_of(model).parameters) {
    if (tensor.name.starts_with("attn.c_attn")) names.push_back(tensor.name);
  }
  CHECK(names == std::vector<std::string>{
                     "attn.c_attn.base_layer.weight", "attn.c_attn.base_layer.bias",
                     "attn.c_attn.lora_A.default.weight", "attn.c_attn.lora_B.default.weight"});
}

/// Names of GPT-2's tensors that an adapter of `kind` trains in a layer, and how many elements.
std::pair<std::vector<std::string>, std::int64_t> trained_in_layer(AdapterKind kind) {
  ModelSpec model = gpt2();
  model.adapter = Adapter{.kind = kind,
                          .rank = 8,
                          .targets = {"c_attn", "mlp.c_proj"},
                          .scaled_inputs = {"mlp.c_proj"}};
  std::vector<std::string> names;
  std::int64_t elements = 0;
  for (const ParameterTensor& tensor : parameters_of(model).parameters) {
    if (!tensor.trainable) continue;
    names.push_back(tensor.name);
    elements += tensor.shape.front() * (tensor.shape.size() > 1 ? tensor.shape.back() : 1);
  }
  return {names, elements};
}

TEST_CASE("DoRA trains a length for each row of a weight beside LoRA's matrices") {
  const auto [names, elements] = trained_in_layer(AdapterKind::dora);
  CHECK(names.size() == 6);
  CHECK(names[2] == "attn.c_attn.lora_magnitude_vector.default.weight");
  CHECK(elements == 8 * (768 + 2304) + 2304 + 8 * (3072 + 768) + 768);
}

TEST_CASE("a prompt's embeddings, and its encoder's layers, are trained behind the model") {
  ModelSpec model = gpt2();
  model.adapter = Adapter{.kind = AdapterKind::prompt_tuning, .virtual_tokens = 20};
  CHECK(count_parameters(model).trainable == 20 * 768);
  CHECK(parameters_of(model).parameters.back().name == "prompt_encoder.default.embedding.weight");
  model.adapter->kind = AdapterKind::p_tuning;
  CHECK(count_parameters(model).trainable == 20 * 768 + 3 * (768 * 768 + 768));
  model.adapter->encoder_hidden_size = 64;
  CHECK(count_parameters(model).trainable ==
        20 * 768 + (64 * 768 + 64) + (64 * 64 + 64) + (768 * 64 + 768));
  CHECK(count_parameters(model).total == 124'439'808 + count_parameters(model).trainable);
}

TEST_CASE("IA3 trains a scale for each channel of a result, or of a feed-forward's input") {
  const auto [names, elements] = trained_in_layer(AdapterKind::ia3);
  CHECK(names == std::vector<std::string>{"attn.c_attn.ia3_l.default", "mlp.c_proj.ia3_l.default"});
  CHECK(elements == 2304 + 3072);
}

TEST_CASE("VeRA trains two vectors a target, and all share two matrices that are buffers") {
  const auto [names, elements] = trained_in_layer(AdapterKind::vera);
  CHECK(names.size() == 4);
  CHECK(elements == 2304 + 8 + 768 + 8);
  ModelSpec model = gpt2();
  model.adapter =
      Adapter{.kind = AdapterKind::vera, .rank = 8, .targets = {"c_attn", "mlp.c_proj"}};
  std::vector<std::vector<std::int64_t>> shared;
  for (const BufferTensor& buffer : parameters_of(model).buffers) {
    if (buffer.of_adapter) shared.push_back(buffer.shape);
  }
  // As wide as the widest target, and as high as the highest.
  CHECK(shared == std::vector<std::vector<std::int64_t>>{{8, 3072}, {2304, 8}});
}

TEST_CASE("what leaves 64 bits throws instead of wrapping") {
  DecoderSpec decoder = small_decoder();
  decoder.vocab_size = std::int64_t{1} << 62;
  CHECK_THROWS_AS(counts_of(decoder), OverflowError);
}

TEST_CASE("nanoGPT places its tensors in the order of its own class") {
  DecoderSpec decoder = small_decoder();
  decoder.attention =
      SoftmaxAttention{.heads = 2, .kv_heads = 2, .head_dim = 4, .layout = QkvLayout::fused};
  decoder.position = LearnedPosition{4};
  decoder.kinds = {LayerKind{.feed_forward = DenseFeedForward{.size = 16, .gated = false}}};
  decoder.tied_embeddings = true;
  const ModelSpec model{"small", "", Family::decoder, decoder};
  // karpathy/nanoGPT, model.py: Block and GPT
  const std::vector<std::string> layer = {"ln_1.weight", "attn.c_attn.weight", "attn.c_proj.weight",
                                          "ln_2.weight", "mlp.c_fc.weight",    "mlp.c_proj.weight"};
  std::vector<std::string> expected = {"wte.weight", "wpe.weight"};
  expected.insert(expected.end(), layer.begin(), layer.end());
  expected.insert(expected.end(), layer.begin(), layer.end());
  expected.emplace_back("ln_f.weight");
  Implementation implementation{.framework = Framework::nanogpt, .loop = LoopKind::nanogpt};
  CHECK(placement_of(parameters_of(model, implementation)) == expected);
  // Written by hand after it, a block has its norms first.
  implementation.loop = LoopKind::plain;
  CHECK(placement_of(parameters_of(model, implementation))[3] == "ln_2.weight");
}

TEST_CASE("a list of layers is placed as it stands") {
  const LayerList list{{{2, {LinearLayer{.in = 3, .out = 5}, NormLayer{.size = 5, .bias = false}}},
                        {1, {LinearLayer{.in = 5, .out = 2, .bias = false}}}}};
  const ModelSpec model{"list", "", Family::layer_list, list};
  const std::vector<std::string> expected = {"linear.weight", "linear.bias", "layernorm.weight",
                                             "linear.weight", "linear.bias", "layernorm.weight",
                                             "linear.weight"};
  CHECK(placement_of(parameters_of(model)) == expected);
}

TEST_CASE("an inventory that knows no placement is listed row by row, parameters first") {
  const Inventory inventory{
      .parameters = {{.name = "a", .shape = {1}, .count = 2}, {.name = "b", .shape = {1}}},
      .buffers = {{.name = "c", .shape = {1}}}};
  CHECK(placement_of(inventory) == std::vector<std::string>{"a", "a", "b", "c"});
}

}  // namespace memest
