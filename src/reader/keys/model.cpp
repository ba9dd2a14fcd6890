// The keys of `model`.
#include "reader/keys/keys.hpp"

namespace memest {
namespace {

constexpr double kMaxFactor = 1e6;

constexpr Word kFamilies[] = {{"decoder"},
                              {"encoder", "the family 'encoder'"},
                              {"encoder-decoder", "the family 'encoder-decoder'"},
                              {"vision", "the family 'vision'"},
                              {"convnet", "the family 'convnet'"}};
constexpr Word kActivations[] = {{"gelu"}, {"gelu-tanh"}, {"relu"}, {"relu2"},
                                 {"silu"}, {"swiglu"},    {"geglu"}};
constexpr Word kNorms[] = {{"layernorm"}, {"rmsnorm"}};
constexpr Word kPositions[] = {{"rope"}, {"learned"}, {"alibi"}, {"none"}};

constexpr Key kMoeKeys[] = {
    {.name = "experts",
     .shapes = {count(1, 100'000)},
     .doc = "Routed experts of a layer.",
     .required = true},
    {.name = "top_k",
     .shapes = {count(1, 100'000)},
     .doc = "Experts that one token uses.",
     .required = true},
    {.name = "shared_experts",
     .shapes = {count(0, 100'000)},
     .fallback = "0",
     .doc = "Experts that every token uses."},
    {.name = "shared_gate",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "A sigmoid gate on the shared experts, as Qwen2-MoE has it."},
    {.name = "score_bias",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "Sigmoid scores and a bias of each expert, as DeepSeek V3 has them."},
    {.name = "expert_ffn_size",
     .shapes = {count()},
     .doc = "Feed-forward size of one expert; ffn_size where left out."},
    {.name = "dense_layers",
     .shapes = {count(0, kMaxLayers)},
     .fallback = "0",
     .doc = "How many of the first layers have a dense feed-forward of ffn_size."},
    {.name = "capacity_factor",
     .shapes = {number(0, kMaxFactor)},
     .fallback = "0",
     .doc = "Tokens an expert takes at most, over the mean; 0 drops none."},
    {.name = "imbalance",
     .shapes = {number(1, kMaxFactor)},
     .fallback = "1",
     .doc = "Tokens of the fullest rank over the mean."},
};

constexpr Key kMlaKeys[] = {
    {.name = "q_lora_rank",
     .shapes = {count(0)},
     .fallback = "0",
     .doc = "Rank of the query projection; 0 projects directly."},
    {.name = "kv_lora_rank",
     .shapes = {count()},
     .doc = "Rank of the joint key and value projection.",
     .required = true},
    {.name = "qk_nope_head_dim",
     .shapes = {count()},
     .doc = "Channels of a query or key head that carry no position.",
     .required = true},
    {.name = "qk_rope_head_dim",
     .shapes = {count()},
     .doc = "Channels of a query or key head that rotate.",
     .required = true},
    {.name = "v_head_dim",
     .shapes = {count()},
     .doc = "Channels of a value head.",
     .required = true},
};

constexpr Key kDecoderKeys[] = {
    {.name = "family",
     .shapes = {choice(kFamilies)},
     .fallback = "decoder",
     .doc = "What kind of network this is.",
     .decides = true},
    {.name = "layers",
     .shapes = {count(1, kMaxLayers)},
     .doc = "Transformer blocks.",
     .required = true},
    {.name = "hidden_size",
     .shapes = {count()},
     .doc = "Width of the residual stream.",
     .required = true},
    {.name = "heads", .shapes = {count()}, .doc = "Attention heads.", .required = true},
    {.name = "kv_heads",
     .shapes = {count()},
     .doc = "Heads of keys and values; as many as heads where left out, 1 is multi-query."},
    {.name = "head_dim",
     .shapes = {count()},
     .doc = "Channels of a head; hidden_size / heads where left out."},
    {.name = "ffn_size",
     .shapes = {count()},
     .doc = "Width of the feed-forward; 4 x hidden_size where left out."},
    {.name = "vocab_size",
     .shapes = {count()},
     .doc = "Rows of the embedding table.",
     .required = true},
    {.name = "activation",
     .shapes = {choice(kActivations)},
     .fallback = "gelu",
     .doc = "Function of the feed-forward; swiglu and geglu have a gate."},
    {.name = "norm",
     .shapes = {choice(kNorms)},
     .fallback = "layernorm",
     .doc = "Normalization, before attention and before the feed-forward."},
    {.name = "position",
     .shapes = {choice(kPositions)},
     .fallback = "rope",
     .doc = "How positions enter; learned needs max_positions."},
    {.name = "max_positions",
     .shapes = {count()},
     .doc = "Longest sequence; the rows of the table where positions are learned."},
    {.name = "bias",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "Biases of all projections and of layernorm."},
    {.name = "tied_embeddings",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "The output head is the embedding table."},
    {.name = "parallel_residual",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "x + attention(norm1(x)) + feed_forward(norm2(x)), as GPT-NeoX has it."},
    {.name = "qk_norm",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "Normalization of queries and keys, one gain of head_dim each."},
    {.name = "sliding_window",
     .shapes = {count()},
     .doc = "Tokens that attention looks back; all where left out."},
    {.name = "attention_softcap",
     .shapes = {number(0, kMaxFactor)},
     .doc = "Cap of the attention scores by tanh."},
    {.name = "logit_softcap",
     .shapes = {number(0, kMaxFactor)},
     .doc = "Cap of the logits by tanh."},
    {.name = "dropout",
     .shapes = {number(0, 1)},
     .fallback = "0",
     .doc = "Probability on the embedding, the attention and the residual branches."},
    {.name = "moe", .shapes = {table(kMoeKeys)}, .doc = "Experts instead of one feed-forward."},
    {.name = "mla",
     .shapes = {table(kMlaKeys)},
     .doc = "Multi-head latent attention, as DeepSeek V2 has it."},
};

constexpr Key kHfKeys[] = {
    {.name = "hf",
     .shapes = {text(), document()},
     .doc = "A Hugging Face config: a path, beside this file, or the config itself.",
     .required = true},
    {.name = "text_only",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "Of a multimodal config the text model alone, without its towers."},
};

// Defaults of torch.nn: Linear(bias=True), LayerNorm(bias=True), Dropout(p=0.5), and inplace=False.
constexpr Key kLinearKeys[] = {
    {.name = "in", .shapes = {count()}, .doc = "Input features.", .required = true},
    {.name = "out", .shapes = {count()}, .doc = "Output features.", .required = true},
    {.name = "bias", .shapes = {flag()}, .fallback = "true", .doc = "A bias is added."},
};
constexpr Key kActivationKeys[] = {
    {.name = "in_place",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "The result overwrites the input."},
};
constexpr Key kNormKeys[] = {
    {.name = "size", .shapes = {count()}, .doc = "Features.", .required = true},
    {.name = "bias", .shapes = {flag()}, .fallback = "true", .doc = "Layernorm adds a bias."},
};
constexpr Key kRmsNormKeys[] = {
    {.name = "size", .shapes = {count()}, .doc = "Features.", .required = true},
};
constexpr Key kDropoutKeys[] = {
    {.name = "probability",
     .shapes = {number(0, 1)},
     .fallback = "0.5",
     .doc = "Share of elements set to zero."},
    {.name = "in_place",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "The result overwrites the input."},
};
constexpr Key kEmbeddingKeys[] = {
    {.name = "rows", .shapes = {count()}, .doc = "Rows of the table.", .required = true},
    {.name = "size", .shapes = {count()}, .doc = "Features of a row.", .required = true},
};

extern const Shapes kLayerShapes;
constexpr Key kLayerKeys[] = {
    {.name = "linear", .shapes = {table(kLinearKeys)}, .doc = "y = x W^T + b."},
    {.name = "relu", .shapes = {table(kActivationKeys)}, .doc = "max(x, 0)."},
    {.name = "gelu", .shapes = {table(kActivationKeys)}, .doc = "Exact GELU."},
    {.name = "silu", .shapes = {table(kActivationKeys)}, .doc = "x sigmoid(x)."},
    {.name = "sigmoid", .shapes = {table(kActivationKeys)}, .doc = "Logistic function."},
    {.name = "tanh", .shapes = {table(kActivationKeys)}, .doc = "Hyperbolic tangent."},
    {.name = "layernorm", .shapes = {table(kNormKeys)}, .doc = "Layer normalization."},
    {.name = "rmsnorm", .shapes = {table(kRmsNormKeys)}, .doc = "Root mean square normalization."},
    {.name = "softmax", .shapes = {table({})}, .doc = "Softmax over the last dimension."},
    {.name = "dropout", .shapes = {table(kDropoutKeys)}, .doc = "Dropout."},
    {.name = "embedding", .shapes = {table(kEmbeddingKeys)}, .doc = "A table that is looked up."},
};
constexpr Key kRepeatKeys[] = {
    {.name = "repeat",
     .shapes = {count(1, kMaxLayers)},
     .doc = "How many times the block stands there.",
     .required = true},
    {.name = "block",
     .shapes = {list(kLayerShapes)},
     .doc = "Layers in order; blocks may hold blocks.",
     .required = true},
};
constexpr Shapes kLayerShapes = {one_of(kLayerKeys), table(kRepeatKeys)};

constexpr Word kListLosses[] = {{"mean-square"}};
constexpr Key kLayerListKeys[] = {
    {.name = "layers",
     .shapes = {list(kLayerShapes)},
     .doc = "Layers in order, and repeated blocks of them.",
     .required = true},
    {.name = "loss",
     .shapes = {choice(kListLosses)},
     .fallback = "mean-square",
     .doc = "Mean square of the output."},
};

}  // namespace

std::span<const Key> decoder_keys() { return kDecoderKeys; }
std::span<const Key> hf_keys() { return kHfKeys; }
std::span<const Key> layer_list_keys() { return kLayerListKeys; }
std::span<const Word> family_words() { return kFamilies; }

}  // namespace memest
