#include "models.hpp"

#include <algorithm>
#include <stdexcept>

namespace memest {
namespace {

ModelSpec decoder_model(DecoderSpec decoder, std::string model_type) {
  ModelSpec model;
  model.model_type = std::move(model_type);
  model.architecture = std::move(decoder);
  return model;
}

DecoderSpec gpt_decoder(bool bias, double dropout) {
  DecoderSpec decoder;
  decoder.hidden_size = 768;
  decoder.embedding_size = 768;
  decoder.vocab_size = 50257;
  DenseFeedForward part;
  part.size = 3072;
  part.activation = ActivationFunction::gelu;
  part.gated = false;
  part.bias = bias;
  LayerKind kind;
  kind.feed_forward = part;
  decoder.kinds = {kind};
  decoder.order = {{0, 12}};
  SoftmaxAttention attention;
  attention.heads = 12;
  attention.kv_heads = 12;
  attention.head_dim = 64;
  attention.layout = QkvLayout::fused;
  attention.q_bias = attention.kv_bias = attention.output_bias = bias;
  decoder.attention = attention;
  decoder.position = LearnedPosition{1024};
  decoder.norm = {NormKind::layernorm, NormGain::weight, bias};
  decoder.tied_embeddings = true;
  decoder.max_positions = 1024;
  decoder.dropout = {dropout, dropout, dropout, 0.0};
  return decoder;
}

DecoderSpec llama_decoder() {
  DecoderSpec decoder;
  decoder.hidden_size = 4096;
  decoder.embedding_size = 4096;
  decoder.vocab_size = 128256;
  DenseFeedForward part;
  part.size = 14336;
  LayerKind kind;
  kind.feed_forward = part;
  decoder.kinds = {kind};
  decoder.order = {{0, 32}};
  SoftmaxAttention attention;
  attention.heads = 32;
  attention.kv_heads = 8;
  attention.head_dim = 128;
  decoder.attention = attention;
  decoder.position = RotaryPosition{.rotary_dim = 128};
  return decoder;
}

}  // namespace

ModelSpec llama() { return decoder_model(llama_decoder(), "llama"); }

ModelSpec gpt(double dropout) { return decoder_model(gpt_decoder(true, dropout), {}); }

ModelSpec gpt2() {
  DecoderSpec decoder = gpt_decoder(true, 0.1);
  std::get<DenseFeedForward>(decoder.kinds[0].feed_forward).activation =
      ActivationFunction::gelu_new;
  return decoder_model(decoder, "gpt2");
}

ModelSpec gemma2() {
  DecoderSpec decoder = llama_decoder();
  decoder.hidden_size = 2304;
  decoder.embedding_size = 2304;
  decoder.norm.gain = NormGain::one_plus_weight;
  decoder.layout = BlockLayout::sandwich;
  decoder.scaled_embedding = true;
  decoder.tied_embeddings = true;
  return decoder_model(decoder, "gemma2");
}

ModelSpec nanogpt() {
  DecoderSpec decoder = gpt_decoder(false, 0.0);
  decoder.vocab_size = 50304;
  return decoder_model(decoder, {});
}

LoweringPolicy policy_for(Framework framework, AttentionKernel attention) {
  LoweringPolicy policy;
  policy.implementation.framework = framework;
  policy.implementation.attention = attention;
  policy.seq_len = 2048;
  return policy;
}

Graph lowered(const ModelSpec& model, const LoweringPolicy& policy) {
  auto result = lower(model, policy);
  if (const auto* why = std::get_if<Unavailable>(&result)) throw std::runtime_error(why->sentence);
  return std::get<Graph>(std::move(result));
}

Block layer(const Graph& graph) {
  const auto found = std::find_if(graph.blocks.begin(), graph.blocks.end(),
                                  [](const Block& block) { return block.checkpointable; });
  if (found == graph.blocks.end()) throw std::runtime_error("a decoder has layers");
  return *found;
}

LoweringPolicy chunked_policy(Framework framework, std::int64_t micro_batch, std::int64_t seq_len) {
  LoweringPolicy policy = policy_for(framework, AttentionKernel::sdpa_cudnn);
  policy.implementation.loss = LossKernel::chunked;
  policy.micro_batch = micro_batch;
  policy.seq_len = seq_len;
  policy.capability = kHopper;
  policy.multiprocessors = 132;
  return policy;
}

ModelSpec llama_of(std::int64_t kv_heads) {
  ModelSpec model = llama();
  auto& decoder = std::get<DecoderSpec>(model.architecture);
  std::get<SoftmaxAttention>(decoder.attention).kv_heads = kv_heads;
  return model;
}

}  // namespace memest
