// Files of other programs as jobs: what several keys decide together, and files beside others.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "memest/reader/import.hpp"
#include "memest/report/diagnostics.hpp"
#include "reader/foreign/dialects.hpp"
#include "reader/foreign/foreign_import.hpp"
#include "reader/request/read_spec.hpp"

namespace memest {
namespace {

Checked<Value> keys_of(std::string name, std::string text) {
  return read_tree(
      std::make_shared<const SourceText>(SourceText{std::move(name), std::move(text)}));
}

/// The value of a key of the spec that the text is; "nothing" where it has none.
std::string value_of(const Checked<Value>& tree, std::string_view path) {
  INFO(render(tree.diagnostics(), {}));
  REQUIRE(tree.ok());
  const Value* value = find_path(tree.value(), path);
  if (value == nullptr) return "nothing";
  std::string text = value->text;
  for (const Value& item : value->items) text += (text.empty() ? "" : " ") + item.text;
  for (const Member& member : value->members) {
    text += (text.empty() ? "" : " ") + member.key + ":" + member.value.text;
  }
  return text;
}

std::string refusal_of(const Checked<Value>& tree) {
  REQUIRE_FALSE(tree.ok());
  return tree.diagnostics()[0].message;
}

Checked<Value> titan(const std::string& text) { return keys_of("a.toml", text); }

Checked<Value> megatron(const std::string& flags) {
  return keys_of("a.sh",
                 "torchrun pretrain_gpt.py --num-layers 8 --hidden-size 4096 "
                 "--num-attention-heads 32 --seq-length 64 --micro-batch-size 1 " +
                     flags + "\n");
}

Checked<Value> bridge(const std::string& yaml) {
  return keys_of(
      "a.yaml",
      "train: {micro_batch_size: 1}\nmodel:\n  num_layers: 8\n  hidden_size: 64\n" + yaml);
}

Checked<Value> litgpt(const std::string& yaml) {
  return keys_of(
      "a.yaml",
      "checkpoint_dir: checkpoints/tiiuae/falcon-7b\ntrain: {max_seq_length: 512}\n" + yaml);
}

TEST_CASE("an argument of litgpt's finetune_lora alone makes a file one of it, with its defaults") {
  for (const char* const key : {"lora_r: 8", "lora_alpha: 16", "lora_key: false"}) {
    INFO(key);
    const auto tree = litgpt(std::string(key) + "\n");
    CHECK(value_of(tree, "training.adapter.lora.rank") == "8");
    CHECK(value_of(tree, "training.adapter.lora.targets") == "query value");
    CHECK(value_of(tree, "training.micro_batch") == "1");
    CHECK(value_of(tree, "training.global_batch") == "16");
  }
  CHECK(value_of(litgpt("quantize: bnb.nf4\n"), "training.adapter.qlora.rank") == "8");
  CHECK(value_of(litgpt("precision: bf16-true\n"), "training.adapter") == "nothing");
  CHECK(value_of(litgpt("lora_mlp: true\n"), "training.adapter.lora.targets") ==
        "query value fc_2 mlp.proj");
}

TEST_CASE("litgpt's devices share the model by FSDP1, and an adapted one by FSDP2") {
  const auto full = litgpt("devices: 4\n");
  CHECK(value_of(full, "parallelism.data") == "4");
  CHECK(value_of(full, "parallelism.fsdp") == "version:1 no_sync:true");
  CHECK(value_of(full, "training.recompute") == "full");
  CHECK(value_of(litgpt("devices: 4\nlora_r: 8\n"), "parallelism.fsdp") == "version:2");
  CHECK(refusal_of(litgpt("devices: auto\n")) ==
        "as many devices as there are is not available yet");
  CHECK(refusal_of(litgpt("num_nodes: 2\n")) == "litgpt on several nodes is not available yet");
}

TEST_CASE("torchtitan's flavors have the sizes of its registry") {
  for (const auto& [flavor, size] :
       {std::pair{"8B", "14336"}, {"70B", "28672"}, {"405B", "53248"}}) {
    const auto tree = titan("[model]\nname = 'llama3'\nflavor = '" + std::string(flavor) + "'\n");
    CHECK(value_of(tree, "model.ffn_size") == size);
  }
  CHECK(refusal_of(titan("[model]\nflavor = '9B'\n")) ==
        "the flavor '9B' of torchtitan's llama3 is not available yet");
  CHECK(refusal_of(titan("[model]\nname = 'flux'\nflavor = 'dev'\n")) ==
        "torchtitan's model 'flux' is not available yet");
}

TEST_CASE("Megatron's layers of before have the kernels that it does not turn off") {
  CHECK(value_of(megatron("--use-legacy-models --no-masked-softmax-fusion --no-bias-gelu-fusion "
                          "--no-bias-dropout-fusion"),
                 "training.implementation") ==
        "name:megatron masked_softmax_fusion:false bias_gelu_fusion:false "
        "bias_dropout_fusion:false layers:legacy");
  // Others fuse in their own way, which a warning says.
  CHECK(value_of(megatron("--no-masked-softmax-fusion"), "training.implementation") ==
        "name:megatron layers:te");
}

TEST_CASE("Megatron-DeepSpeed is ZeRO 1 around those layers") {
  const auto half = megatron("--fp16 --deepspeed --zero-stage 1");
  CHECK(value_of(half, "training.implementation") == "name:megatron layers:legacy deepspeed:true");
  CHECK(value_of(half, "parallelism.zero") == "1");
  const auto counted = megatron(
      "--bf16 --deepspeed --pad-vocab-size-to 250880 --position-embedding-type alibi "
      "--pp-partition-method 'type:transformer|embedding'");
  CHECK(value_of(counted, "parallelism") ==
        "account_for_embedding:true account_for_loss:true zero:1");
  CHECK(value_of(counted, "model.vocab_size") == "250880");
  CHECK(value_of(counted, "model.position") == "alibi");
  CHECK(refusal_of(megatron("--bf16 --deepspeed --pp-partition-method uniform")) ==
        "the partition 'uniform' of DeepSpeed's pipeline is not available yet");
  // BF16_Optimizer shares by itself, and wants stage 0.
  CHECK(value_of(megatron("--bf16 --deepspeed --zero-stage 0"), "parallelism.zero") == "1");
  CHECK(refusal_of(megatron("--fp16 --deepspeed --zero-stage 0")) ==
        "ZeRO 0 of DeepSpeed around Megatron's layers is not available yet");
}

TEST_CASE("torchtitan's degrees are ranks: replicas, shards, and what a pipeline cuts") {
  const std::string model = "[model]\nflavor = '8B'\n";
  const auto hybrid =
      titan(model +
            "[parallelism]\ndata_parallel_replicate_degree = 2\ndata_parallel_shard_degree = 4\n");
  CHECK(value_of(hybrid, "parallelism.data") == "8");
  CHECK(value_of(hybrid, "parallelism.fsdp") == "version:2 replicate:2");
  const auto replicas =
      titan(model +
            "[parallelism]\ndata_parallel_replicate_degree = 4\ndata_parallel_shard_degree = 1\n");
  CHECK(value_of(replicas, "parallelism") == "data:4 ddp:");
  CHECK(value_of(replicas, "parallelism.ddp") == "bucket_mb:100");
  const auto tensor =
      titan(model + "[parallelism]\ndata_parallel_shard_degree = 1\ntensor_parallel_degree = 2\n");
  CHECK(value_of(tensor, "training.precision") == "fp32");
  CHECK(value_of(tensor, "parallelism.sequence") == "true");
  CHECK(value_of(tensor, "training.implementation.loss_parallel") == "true");
  const auto pipeline = titan(
      model +
      "[training]\nlocal_batch_size = 16\n[parallelism]\npipeline_parallel_degree = 3\n"
      "pipeline_parallel_schedule = 'Interleaved1F1B'\npipeline_parallel_layers_per_stage = 6\n");
  CHECK(value_of(pipeline, "training.micro_batch") == "1");
  CHECK(value_of(pipeline, "training.gradient_accumulation") == "16");
  CHECK(value_of(pipeline, "parallelism.schedule") == "interleaved");
  CHECK(value_of(pipeline, "parallelism.virtual_stages") == "2");
}

TEST_CASE("torchtitan's checkpoints and float8 follow from several keys") {
  const std::string model = "[model]\nflavor = '8B'\n";
  CHECK(value_of(titan(model), "training.recompute") == "every:2");
  CHECK(value_of(titan(model + "[activation_checkpoint]\nselective_ac_option = 'op'\n"),
                 "training.recompute") == "selective");
  CHECK(refusal_of(titan(model + "[activation_checkpoint]\nmode = 'memory_budget'\n")) ==
        "the recompute 'memory_budget' is not available yet");
  const auto eight = titan(
      "[model]\nflavor = '8B'\nconverters = ['float8']\n[float8]\nrecipe_name = 'rowwise'\n"
      "filter_fqns = 'output,wq'\n");
  CHECK(value_of(eight, "training.float8.recipe") == "rowwise");
  CHECK(value_of(eight, "training.float8.filter_fqns") == "output wq");
  CHECK(value_of(titan(model + "[float8]\nrecipe_name = 'rowwise'\n"), "training.float8") ==
        "nothing");
}

TEST_CASE("Megatron's sizes have its own defaults") {
  const auto plain = megatron("--vocab-file a --merge-file b --bf16");
  CHECK(value_of(plain, "model.vocab_size") == "50304");
  CHECK(value_of(plain, "model.position") == "learned");
  CHECK(value_of(plain, "model.bias") == "true");
  CHECK(value_of(plain, "model.dropout") == "0.1");
  CHECK(value_of(plain, "training.precision") == "megatron");
  CHECK(value_of(plain, "model.kv_heads") == "nothing");
  const auto gated = megatron("--swiglu --vocab-size 100 --tensor-model-parallel-size 2");
  CHECK(value_of(gated, "model.ffn_size") == "10880");
  CHECK(value_of(gated, "model.vocab_size") == "256");
  CHECK(value_of(gated, "training.precision") == "fp32");
  CHECK(value_of(megatron("--vocab-size 127 --tokenizer-type NullTokenizer"), "model.vocab_size") ==
        "128");
  CHECK(value_of(megatron("--group-query-attention --num-query-groups 8"), "model.kv_heads") ==
        "8");
  CHECK(value_of(megatron("--num-query-groups 8"), "model.kv_heads") == "nothing");
  CHECK(refusal_of(megatron("--hidden-dropout 0.0")).find("dropout") == 0);
}

TEST_CASE("Megatron's experts and latent attention are the keys of a spec") {
  const auto experts = megatron(
      "--num-experts 64 --moe-router-topk 6 --moe-ffn-hidden-size 1408 "
      "--moe-shared-expert-intermediate-size 2816 --moe-layer-freq '([0]*1+[1]*7)'");
  CHECK(value_of(experts, "model.moe") ==
        "experts:64 top_k:6 expert_ffn_size:1408 shared_experts:2 dense_layers:1");
  CHECK(refusal_of(megatron("--num-experts 8 --moe-layer-freq '([0]*1+[1]*2+[0]*5)'")) ==
        "a dense layer between those with experts is not available yet");
  const auto latent = megatron("--multi-latent-attention --kv-lora-rank 512 --qk-layernorm");
  CHECK(value_of(latent, "model.mla") ==
        "q_lora_rank:0 kv_lora_rank:512 qk_nope_head_dim:128 qk_rope_head_dim:64 v_head_dim:128");
  CHECK(value_of(latent, "model.qk_norm") == "nothing");
}

TEST_CASE("Megatron's stages of unequal numbers of layers are the keys of a spec") {
  const auto counted = megatron(
      "--num-layers 30 --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 2 "
      "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split");
  CHECK(value_of(counted, "parallelism") ==
        "account_for_embedding:true account_for_loss:true pipeline:4 schedule:interleaved "
        "virtual_stages:4");
  const auto listed = megatron(
      "--pipeline-model-parallel-size 16 --pipeline-model-parallel-layout \"Et*3|(tt|)*29,t|L\"");
  CHECK(value_of(listed, "parallelism.pipeline_layout") == "Et*3|(tt|)*29,t|L");
  const auto names = [](const std::string& stages) {
    return bridge("  pipeline_model_parallel_size: 2\n  pipeline_model_parallel_layout: " + stages +
                  "\n");
  };
  CHECK(value_of(names("[[embedding, decoder, decoder], [decoder, decoder, decoder, loss]]"),
                 "parallelism.pipeline_layout") == "Ett|tttL");
  CHECK(value_of(names("'Ett|tttL'"), "parallelism.pipeline_layout") == "Ett|tttL");
  CHECK(refusal_of(names("[[embedding, decodr], [loss]]")) == "'decodr' is not a valid LayerType");
}

TEST_CASE("Megatron's ranks, checkpoints and kernels follow from several flags") {
  const auto stages = megatron(
      "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2 "
      "--sequence-parallel");
  CHECK(value_of(stages, "parallelism") == "pipeline:2 schedule:interleaved virtual_stages:2");
  const auto full =
      megatron("--recompute-granularity full --recompute-method block --recompute-num-layers 3");
  CHECK(value_of(full, "training.recompute.full") == "method:block layers:3");
  CHECK(value_of(megatron("--recompute-granularity selective --recompute-modules core_attn mlp"),
                 "training.recompute.selective") == "attention-core feed-forward");
  CHECK(value_of(megatron("--recompute-granularity selective --recompute-modules mla_up_proj moe "
                          "shared_experts"),
                 "training.recompute.selective") == "mla-up-proj moe shared-experts");
  CHECK(value_of(megatron("--moe-layer-recompute"), "training.recompute.selective") ==
        "attention-core moe");
  CHECK(refusal_of(megatron("--recompute-granularity selective --recompute-modules router")) ==
        "recompute of the module 'router' is not available yet");
  CHECK(value_of(megatron("--transformer-impl local"), "training.implementation") ==
        "name:megatron layers:local");
  CHECK(value_of(megatron("--attention-backend flash --cross-entropy-loss-fusion "
                          "--cross-entropy-fusion-impl te"),
                 "training.implementation") == "name:megatron attention:flash-2 loss:te layers:te");
  CHECK(value_of(megatron("--fp16"), "training.precision") == "megatron-fp16");
  CHECK(value_of(megatron("--fp16 --accumulate-allreduce-grads-in-fp32"), "training.precision") ==
        "megatron");
  CHECK(refusal_of(megatron("--optimizer muon")) == "'muon' as '--optimizer' is not available yet");
}

TEST_CASE("Megatron's CUDA graphs are a full iteration's or parts of layers") {
  const auto graphs = [](const std::string& flags) {
    return value_of(megatron(flags), "training.implementation.cuda_graph");
  };
  CHECK(graphs("--cuda-graph-impl local --cuda-graph-scope full_iteration") == "full_iteration");
  CHECK(graphs("--cuda-graph-impl transformer_engine --cuda-graph-scope attn mlp") == "attn mlp");
  // An empty scope is the whole layer, as the old word for it is.
  CHECK(graphs("--cuda-graph-impl transformer_engine") == "attn mlp");
  CHECK(graphs("--external-cuda-graph --cuda-graph-scope full") == "attn mlp");
  CHECK(refusal_of(megatron("--enable-cuda-graph --cuda-graph-scope attn")) ==
        "a capture of layers by Megatron itself is not available yet");
  CHECK(refusal_of(megatron("--cuda-graph-impl transformer_engine --cuda-graph-scope mamba")) ==
        "a CUDA graph of 'mamba' is not available yet");
}

TEST_CASE("exchanges of experts beside another micro-batch's products are refused") {
  const std::string refusal =
      "an exchange of experts beside another micro-batch's products is not available yet";
  CHECK(refusal_of(megatron("--overlap-moe-expert-parallel-comm")) == refusal);
  CHECK(refusal_of(bridge("  overlap_moe_expert_parallel_comm: true\n")) == refusal);
  CHECK(refusal_of(bridge("comm_overlap: {overlap_moe_expert_parallel_comm: true}\n")) == refusal);
}

TEST_CASE("Megatron's flex dispatcher is Hybrid-EP where its backend is") {
  const auto dispatcher = [](const std::string& flags) {
    return value_of(megatron("--num-experts 8 --moe-router-topk 2 " + flags),
                    "training.implementation.token_dispatcher");
  };
  const std::string flex = "--moe-token-dispatcher-type flex ";
  CHECK(dispatcher(flex + "--moe-flex-dispatcher-backend hybridep") == "hybridep");
  // Its own default is DeepEP, which is not followed; other types ask for no backend.
  CHECK(dispatcher(flex) == "nothing");
  CHECK(dispatcher(flex + "--moe-enable-deepep") == "nothing");
  CHECK(dispatcher("--moe-flex-dispatcher-backend hybridep") == "nothing");
}

TEST_CASE("Megatron's precision-aware optimizer keeps what it has in types of its own") {
  const std::string aware = "--bf16 --use-precision-aware-optimizer --use-distributed-optimizer ";
  CHECK(value_of(megatron("--optimizer adam " + aware), "training.optimizer") ==
        "name:adamw exp_avg:fp32 exp_avg_sq:fp32");
  const auto narrow = megatron(aware +
                               "--exp-avg-dtype bf16 --exp-avg-sq-dtype fp16 --main-params-dtype "
                               "fp16 --main-grads-dtype bf16");
  CHECK(value_of(narrow, "training.optimizer") == "exp_avg:bf16 exp_avg_sq:fp16 main_params:fp16");
  CHECK(value_of(narrow, "training.precision") == "megatron-bf16-grad");
  CHECK(value_of(megatron(aware + "--exp-avg-dtype bf16"), "training.precision") == "megatron");
  // fp16 weights have no half of an fp32 number in them.
  CHECK(value_of(megatron("--fp16 --use-precision-aware-optimizer"), "training.optimizer") ==
        "exp_avg:fp32 exp_avg_sq:fp32 main_params:fp32");
  CHECK(refusal_of(megatron(aware + "--exp-avg-sq-dtype fp8")) ==
        "a state of the optimizer in fp8 is not available yet");
  CHECK(refusal_of(megatron(aware + "--main-params-dtype bf16")) ==
        "main parameters are in fp32 or fp16, not in bf16");
  CHECK(refusal_of(megatron(aware + "--exp-avg-dtype fp64")) == "no type is called 'fp64'");
  CHECK(refusal_of(megatron("--bf16 --exp-avg-dtype bf16")) ==
        "the type is that of the precision-aware optimizer");
  CHECK(refusal_of(
            megatron(aware + "--main-grads-dtype bf16 --accumulate-allreduce-grads-in-fp32")) ==
        "gradients that are accumulated in fp32 are main gradients in fp32");
  const auto yaml = bridge(
      "optimizer: {optimizer: adam, use_precision_aware_optimizer: true, exp_avg_dtype: "
      "{_target_: torch.bfloat16, _call_: false}, exp_avg_sq_dtype: torch.bfloat16, "
      "main_grads_dtype: bfloat16, store_param_remainders: false}\n");
  CHECK(value_of(yaml, "training.optimizer") ==
        "name:adamw exp_avg:bf16 exp_avg_sq:bf16 main_params:fp32");
}

TEST_CASE("products in 8 and 4 bits are those of Megatron's flags, and of Bridge's precisions") {
  const std::string bf16 = "--bf16 --transformer-impl transformer_engine ";
  CHECK(value_of(megatron(bf16 + "--fp8-recipe mxfp8"), "training.float8") == "nothing");
  CHECK(value_of(megatron(bf16 + "--fp8-format hybrid"), "training.float8") == "recipe:delayed");
  CHECK(value_of(megatron(bf16 + "--fp8-format e4m3 --fp8-recipe tensorwise --fp8-param-gather "
                                 "--first-last-layers-bf16 --num-layers-at-end-in-bf16 2"),
                 "training.float8") ==
        "recipe:tensorwise param_gather:true first_layers_bf16:1 last_layers_bf16:2");
  CHECK(value_of(megatron(bf16 + "--fp4-format e2m1"), "training.float8") == "recipe:nvfp4");
  CHECK(refusal_of(megatron(bf16 + "--fp8-format e4m3 --fp8-recipe custom")) ==
        "the recipe 'custom' is not available yet");
  const auto named = bridge("mixed_precision: bf16-with-fp8-current-scaling-mixed\n");
  CHECK(value_of(named, "training.float8") ==
        "recipe:tensorwise param_gather:true first_layers_bf16:1 last_layers_bf16:1");
  CHECK(value_of(named, "training.precision") == "megatron");
  const auto whole = bridge(
      "mixed_precision: {bf16: true, grad_reduce_in_fp32: false, fp8: e4m3, fp8_recipe: mxfp8, "
      "fp8_param_gather: true, fp4: null}\n");
  CHECK(value_of(whole, "training.float8") == "recipe:mxfp8 param_gather:true");
  CHECK(value_of(whole, "training.precision") == "megatron-bf16-grad");
}

TEST_CASE("so many layers are offloaded as Megatron's flag says, or as Bridge's two fields do") {
  CHECK(value_of(megatron("--cpu-offloading-num-layers 3"), "training.offload_activations") ==
        "method:cpu_offloading layers:3");
  CHECK(value_of(megatron("--cpu-offloading-num-layers 0"), "training.offload_activations") ==
        "nothing");
  CHECK(value_of(bridge("  cpu_offloading: true\n  cpu_offloading_num_layers: 3\n"),
                 "training.offload_activations") == "method:cpu_offloading layers:3");
  CHECK(value_of(bridge("  cpu_offloading_num_layers: 3\n"), "training.offload_activations") ==
        "nothing");
  CHECK(refusal_of(bridge("  cpu_offloading_activations: false\n")) ==
        "offload of weights alone in Megatron is not available yet");
}

TEST_CASE("GPUs are those of the launcher or the batch system, where they divide into the ranks") {
  const std::string flags =
      " a.py --num-layers 8 --num-attention-heads 8 --tensor-model-parallel-size 4\n";
  const auto launched = keys_of("a.sh", "torchrun --nproc_per_node=8 --nnodes 4" + flags);
  CHECK(value_of(launched, "hardware") == "count:32 gpus_per_node:8");
  CHECK(value_of(launched, "parallelism.data") == "8");
  const auto batch = keys_of("a.slurm", "#SBATCH --nodes=2 --gres=gpu:a100:8\npython" + flags);
  CHECK(value_of(batch, "hardware.count") == "16");
  const auto unknown = keys_of("a.sh", "torchrun --nproc_per_node 2" + flags);
  CHECK(value_of(unknown, "hardware") == "nothing");
}

TEST_CASE("the allocator's settings are those that a script exports") {
  const std::string command = "python a.py --num-layers 8 --num-attention-heads 8\n";
  const auto exported = keys_of(
      "a.sh",
      "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:128\n" + command);
  CHECK(value_of(exported, "allocator") == "expandable_segments:true max_split_size_mb:128");
  CHECK(value_of(keys_of("a.sh", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True " + command),
                 "allocator.expandable_segments") == "true");
}

TEST_CASE("Megatron-Bridge's fields are those of its config, whole or as overrides") {
  const auto whole = bridge(
      "  gated_linear_unit: true\n  activation_func: {_target_: torch.nn.functional.silu}\n"
      "  num_query_groups: 8\n  vocab_size: 100\n  should_pad_vocab: true\n"
      "  attention_dropout: 0.0\n  hidden_dropout: 0.0\n  add_bias_linear: false\n"
      "  share_embeddings_and_output_weights: false\n"
      "mixed_precision: {bf16: true, grad_reduce_in_fp32: false, fp8: null}\n");
  CHECK(value_of(whole, "model.activation") == "swiglu");
  CHECK(value_of(whole, "model.kv_heads") == "8");
  CHECK(value_of(whole, "model.vocab_size") == "128");
  CHECK(value_of(whole, "model.bias") == "false");
  CHECK(value_of(whole, "model.tied_embeddings") == "false");
  CHECK(value_of(whole, "training.precision") == "megatron-bf16-grad");
  CHECK(refusal_of(bridge("mixed_precision: fp16_with_fp8_delayed_scaling_mixed\n")) ==
        "the precision 'fp16_with_fp8_delayed_scaling_mixed' is not available yet");
  const auto overrides =
      keys_of("a.yaml", "model: {tensor_model_parallel_size: 2}\ntrain: {micro_batch_size: 1}\n");
  CHECK(value_of(overrides, "model") == "nothing");
  CHECK(value_of(overrides, "training.precision") == "megatron");
}

TEST_CASE("nanoGPT's files have train.py's defaults, or the checkpoint that they start from") {
  const auto plain = keys_of("a.py", "batch_size = 4\nblock_size = 128\ncompile = False\n");
  CHECK(value_of(plain, "model.hidden_size") == "768");
  CHECK(value_of(plain, "model.vocab_size") == "50304");
  CHECK(value_of(plain, "training.global_batch") == "160");
  CHECK(value_of(plain, "training.seq_len") == "128");
  const auto tuned =
      keys_of("a.py", "init_from = 'gpt2-xl'\nwandb_log = False\ndtype = 'float16'\n");
  CHECK(value_of(tuned, "model.layers") == "48");
  CHECK(value_of(tuned, "model.vocab_size") == "50257");
  CHECK(value_of(tuned, "training.precision") == "amp-fp16");
}

/// Files of a folder of their own, which goes when the test ends.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / "memest-import-files") {
    std::filesystem::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

TEST_CASE("a preset beside another program's file is its model alone") {
  const Folder folder;
  const std::string file = folder.write(
      "overrides.yaml", "model: {tensor_model_parallel_size: 2}\ntrain: {micro_batch_size: 1}\n");
  const Checked<Value> tree = read_tree(ReadRequest{{"llama-3-8b", file}});
  CHECK(value_of(tree, "model.hf.hidden_size") == "4096");
  CHECK(value_of(tree, "training.optimizer") == "nothing");
  CHECK(value_of(tree, "training.precision") == "megatron");
}

TEST_CASE("a config.json beside another file is its model, and each line says its file") {
  const Folder folder;
  const std::string config = folder.write(
      "config.json",
      "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 64, \"n_head\": 4, \"vocab_size\": "
      "100, \"n_positions\": 64, \"task\": 1}");
  const std::string spec = folder.write("spec.yaml", "training: {seq_len: 32}\n");
  const Checked<ImportedJob> job = import_job(ReadRequest{{config, spec}});
  REQUIRE(job.ok());
  CHECK(job.value().spec.find("\n    n_layer: 2\n") != std::string::npos);
  CHECK(job.value().spec.find("seq_len: 32") != std::string::npos);
  CHECK(job.value().spec.find(": task: neither parameters nor computation") != std::string::npos);
}

TEST_CASE("a file that nobody knows says which are known") {
  CHECK(refusal_of(keys_of("pyproject.toml", "[project]\nname = 'x'\n")) ==
        "this is no configuration that memest knows");
  CHECK(keys_of("a.py", "x = 1\n").diagnostics()[0].hint ==
        "of such files it knows nanoGPT's config");
}

}  // namespace
}  // namespace memest
