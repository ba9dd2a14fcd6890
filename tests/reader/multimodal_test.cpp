// Multimodal configs that are read with their tower, and what a spec says of the images.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "memest/graph/lower.hpp"
#include "memest/graph/parameters.hpp"
#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;

constexpr const char* kSmall =
    "{model_type: llava, vision_config: {hidden_size: 64, intermediate_size: 128, "
    "num_hidden_layers: 3, num_attention_heads: 4, image_size: 32, patch_size: 8}, text_config: "
    "{model_type: llama, hidden_size: 128, intermediate_size: 256, num_hidden_layers: 2, "
    "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 512}}";

Checked<Job> read_text(const std::string& hf, const std::string& training,
                       const std::string& rest = "hardware: {gpu: h100-sxm-80gb}") {
  const std::string text = "model: {hf: " + hf + "}\ntraining: {" + training + "}\n" + rest + "\n";
  return read_job(std::make_shared<const SourceText>(SourceText{"spec.yaml", text}));
}

Job job_of(const std::string& training, const std::string& hf = kSmall) {
  Checked<Job> job = read_text(hf, training);
  REQUIRE(job.ok());
  return std::move(job).value();
}

const Diagnostic& first_error(const Checked<Job>& job) {
  REQUIRE_FALSE(job.ok());
  return job.diagnostics().front();
}

std::variant<Graph, Unavailable> lowered(const Job& job) {
  return lower(job.model, policy_of(*job.training, kHopper, 132));
}

Int128 saved_of(const std::string& training) {
  const auto graph = lowered(job_of(training));
  REQUIRE(std::holds_alternative<Graph>(graph));
  return std::get<Graph>(graph).saved_bytes().evaluate(std::get<Graph>(graph).sizes);
}

}  // namespace

TEST_CASE("LLaVA without keys is CLIP's ViT-L of 336 pixels before a LLaMA") {
  const Job job = job_of("seq_len: 1024, images: 1", "{model_type: llava}");
  const VisionPart& vision = job.model.vision.value();
  CHECK(vision.tower.encoder.layers() == 24);
  CHECK(vision.tower.used == 23);  // vision_feature_layer -2
  CHECK(vision.tower.patches.positions() == 577);
  CHECK(vision.tokens_of_image() == 576);
  // transformers 5.17, LlavaForConditionalGeneration(LlavaConfig()) on the meta device.
  CHECK(count_parameters(job.model).total == 7'062'902'784);
  CHECK(count_parameters(job.model).trainable == 7'062'902'784);
}

TEST_CASE("Gemma 3 pools the patches of SigLIP and ties its head") {
  const Job job =
      job_of("seq_len: 1024, images: 2",
             "{model_type: gemma3, vision_config: {hidden_size: 1152, image_size: 896, "
             "intermediate_size: 4304, num_attention_heads: 16, num_hidden_layers: 27, "
             "patch_size: 14, vision_use_head: false}, text_config: {hidden_size: 2560, "
             "intermediate_size: 10240, num_hidden_layers: 34}}");
  const VisionPart& vision = job.model.vision.value();
  CHECK(vision.tower.used == 27);
  CHECK(vision.projector.pool == 4);
  CHECK(vision.tokens_of_image() == 256);
  CHECK(count_parameters(job.model).total == 4'300'079'472);  // gemma-3-4b as published
  CHECK(std::holds_alternative<Graph>(lowered(job)));
}

namespace {

/// As published on the hub: the text model's keys beside the config's own.
constexpr const char* kQwen2Vl2b =
    "{model_type: qwen2_vl, architectures: [Qwen2VLForConditionalGeneration], hidden_size: 1536, "
    "intermediate_size: 8960, num_hidden_layers: 28, num_attention_heads: 12, "
    "num_key_value_heads: 2, vocab_size: 151936, max_position_embeddings: 32768, "
    "tie_word_embeddings: true, use_sliding_window: false, sliding_window: 32768, rope_scaling: "
    "{type: mrope, mrope_section: [16, 24, 24]}, vision_config: {depth: 32, embed_dim: 1280, "
    "mlp_ratio: 4, num_heads: 16, in_chans: 3, hidden_size: 1536, patch_size: 14, "
    "spatial_merge_size: 2, temporal_patch_size: 2}}";
constexpr const char* kQwen25Vl7b =
    "{model_type: qwen2_5_vl, text_config: {model_type: qwen2_5_vl_text, hidden_size: 3584, "
    "intermediate_size: 18944, num_hidden_layers: 28, num_attention_heads: 28, "
    "num_key_value_heads: 4, vocab_size: 152064}, vision_config: {depth: 32, hidden_size: 1280, "
    "intermediate_size: 3420, num_heads: 16, out_hidden_size: 3584, window_size: 112, "
    "fullatt_block_indexes: [7, 15, 23, 31]}}";

}  // namespace

TEST_CASE("Qwen2-VL's images are of any size, which the job says") {
  const Job job = job_of("seq_len: 4096, images: 2, image_size: [1092, 812]", kQwen2Vl2b);
  const VisionPart& vision = job.model.vision.value();
  CHECK(vision.tower.packed);
  CHECK(vision.tower.patches.patches() == 78 * 58);
  CHECK(vision.tokens_of_image() == 39 * 29);
  CHECK(vision.tower.windows.side == 0);
  CHECK(count_parameters(job.model).total == 2'208'985'600);  // as published
  CHECK(std::holds_alternative<Graph>(
      lowered(job_of("seq_len: 4096, images: 2, image_size: [1092, 812]", kQwen2Vl2b))));
  CHECK(
      std::holds_alternative<Unavailable>(lowered(job_of("seq_len: 2048, images: 2", kQwen2Vl2b))));
}

TEST_CASE("most layers of Qwen2.5-VL's tower see windows") {
  const Job job = job_of("seq_len: 2048, images: 1, image_size: [252, 308]", kQwen25Vl7b);
  const VisionPart& vision = job.model.vision.value();
  CHECK(vision.tower.windows.side == 8);
  CHECK(vision.tower.windows.full == std::vector<std::int64_t>{7, 15, 23, 31});
  CHECK(count_parameters(job.model).total == 8'292'166'656);  // as published
  const auto graph = lowered(job);
  REQUIRE(std::holds_alternative<Graph>(graph));
  std::int64_t in_windows = 0;
  for (const BlockRun& one : std::get<Graph>(graph).order) {
    const Block& block = std::get<Graph>(graph).blocks[one.block];
    if (block.name == "vision layer (windows)") in_windows += one.repeat;
  }
  CHECK(in_windows == 28);
}

TEST_CASE("an image of any size has sides of whole tokens, and two tokens around it") {
  const std::string step = "seq_len: 64, images: 1, image_size: ";
  CHECK_THAT(first_error(read_text(kQwen2Vl2b, step + "[1000, 812]")).message,
             ContainsSubstring("multiple of 28"));
  CHECK(first_error(read_text(kQwen2Vl2b, step + "[1000, 812]")).hint ==
        "the processor resizes to it: 1008");
  CHECK_THAT(first_error(read_text(kQwen2Vl2b, step + "[224]")).message,
             ContainsSubstring("height and width"));
  // 8 × 8 tokens are 64, and the two around them more.
  CHECK_THAT(first_error(read_text(kQwen2Vl2b, step + "[224, 224]")).message,
             ContainsSubstring("more than the sequence's 64"));
  CHECK_THAT(first_error(read_text(kSmall, step + "[28, 28]")).message,
             ContainsSubstring("config says the size"));
}

TEST_CASE("a feature layer is counted from either end, and keeps the class token where asked") {
  const std::string small(kSmall);
  const auto vision_of = [&small](const std::string& keys) {
    const std::string hf = small.substr(0, small.size() - 1) + ", " + keys + "}";
    return job_of("seq_len: 64, images: 1", hf).model.vision.value();
  };
  CHECK(vision_of("vision_feature_layer: -1").tower.used == 3);
  CHECK(vision_of("vision_feature_layer: 1").tower.used == 1);
  CHECK(vision_of("vision_feature_select_strategy: full").tokens_of_image() == 17);
  const std::string hf = small.substr(0, small.size() - 1) + ", vision_feature_layer: 7}";
  CHECK_THAT(first_error(read_text(hf, "seq_len: 64, images: 1")).message,
             ContainsSubstring("no hidden state 7"));
}

TEST_CASE("what is frozen takes less, and images take more") {
  const std::string step = "seq_len: 64, micro_batch: 2, precision: bf16, images: ";
  CHECK(saved_of(step + "1, freeze: [vision_tower]") < saved_of(step + "1"));
  CHECK(saved_of(step + "1") < saved_of(step + "3"));
  CHECK(first_error(read_text(kSmall, step + "1, freeze: [vision_tower, multi_modal_projector, "
                                             "language_model]"))
            .message == "nothing is trained");
}

TEST_CASE("images that do not fit into their sequence, or of no tower, are mistakes") {
  CHECK_THAT(first_error(read_text(kSmall, "seq_len: 64, images: 5")).message,
             ContainsSubstring("5 images of 16 tokens are more than the sequence's 64"));
  const std::string llama = "{model_type: llama, hidden_size: 128, num_attention_heads: 4}";
  for (const char* keys : {"images: 1", "freeze: [vision_tower]"}) {
    CHECK_THAT(first_error(read_text(llama, std::string("seq_len: 64, ") + keys)).message,
               ContainsSubstring("no vision tower"));
  }
}

TEST_CASE("what images were not recorded beside is not available") {
  const std::string step = "seq_len: 64, images: 1, ";
  for (const char* keys :
       {"implementation: torchtitan", "recompute: selective", "recompute: {every: 2}",
        "recompute: {full: {reentrant: true}}", "precision: mixed", "precision: fp16",
        "implementation: {name: transformers, loop: sft}",
        "implementation: {name: transformers, torch: 2.9}"}) {
    INFO(keys);
    const Checked<Job> job = read_text(kSmall, step + keys);
    CHECK(first_error(job).unavailable);
  }
  for (const char* split : {"data: 2, zero: 1", "tensor: 2", "data: 2, fsdp: {version: 2}"}) {
    INFO(split);
    const Checked<Job> several = read_text(
        kSmall, "seq_len: 64, images: 1, precision: bf16",
        "parallelism: {" + std::string(split) + "}\nhardware: {gpu: h100-sxm-80gb, count: 2}");
    CHECK(first_error(several).unavailable);
  }
  for (const char* keys :
       {"seq_len: 64",
        "seq_len: 64, images: 1, implementation: {name: "
        "transformers, attention: eager}",
        "seq_len: 64, images: 1, adapter: {lora: {rank: 4, targets: [linear_1]}}",
        "seq_len: 64, images: 1, adapter: {lora: {rank: 4, targets: [fc1], exclude: "
        "[vision_tower]}}",
        "seq_len: 64, images: 1, adapter: {lora: {rank: 4, targets: [q_proj], modules_to_save: "
        "[v_proj]}}"}) {
    INFO(keys);
    CHECK(std::holds_alternative<Unavailable>(lowered(job_of(keys))));
  }
}

TEST_CASE("an adapter's targets name modules of the tower too, as peft finds them") {
  const std::string step = "seq_len: 64, images: 1, precision: bf16, adapter: {lora: {rank: 4, ";
  const auto trained = [&step](const std::string& keys) {
    return count_parameters(job_of(step + keys + "}}").model).trainable;
  };
  // Two layers of 128 channels before a rank of 4; three of 64 in the tower, the last of which
  // nothing reads, and the optimizer is given all the same.
  const std::int64_t of_decoder = 2 * 4 * (128 + 128);
  const std::int64_t of_tower = 3 * 4 * (64 + 64);
  CHECK(trained("targets: [q_proj]") == of_decoder + of_tower);
  CHECK(trained("targets: [q_proj], exclude: [vision_tower]") == of_decoder);
  CHECK(trained("targets: [o_proj]") == of_decoder);
  CHECK(trained("targets: [out_proj]") == of_tower);
  const auto saved = [&step](const std::string& keys) { return saved_of(step + keys + "}}"); };
  CHECK(saved("targets: [q_proj]") > saved("targets: [q_proj], exclude: [vision_tower]"));
}

TEST_CASE("Qwen2.5-VL's tower has a gate as its decoder does, Qwen2-VL's has none") {
  const std::string step =
      "seq_len: 2048, images: 1, image_size: [252, 308], adapter: {lora: {rank: 8, targets: ";
  const auto trained = [&step](const char* hf, const std::string& targets) {
    return count_parameters(job_of(step + targets + "}}", hf).model).trainable;
  };
  CHECK(trained(kQwen25Vl7b, "[gate_proj]") == 28 * 8 * (3584 + 18944) + 32 * 8 * (1280 + 3420));
  CHECK(trained(kQwen2Vl2b, "[gate_proj]") == 28 * 8 * (1536 + 8960));
  CHECK(trained(kQwen2Vl2b, "[fc1, qkv]") == 32 * 8 * (1280 + 5120) + 32 * 8 * (1280 + 3840));
  const auto reason = lowered(job_of(step + "[proj]}}", kQwen2Vl2b));
  REQUIRE(std::holds_alternative<Unavailable>(reason));
  CHECK_THAT(std::get<Unavailable>(reason).sentence, ContainsSubstring("patches' convolution"));
}

TEST_CASE("parts beside an adapter are said where it is") {
  const std::string lora = "adapter: {lora: {rank: 4, targets: [q_proj]";
  const std::string step = "seq_len: 64, images: 1, ";
  CHECK(first_error(read_text(kSmall, step + "freeze: [vision_tower], " + lora + "}}")).message ==
        "an adapter freezes the whole model");
  const std::string llama = "{model_type: llama, hidden_size: 128, num_attention_heads: 4}";
  CHECK_THAT(
      first_error(read_text(llama, "seq_len: 64, " + lora + ", exclude: [vision_tower]}}")).message,
      ContainsSubstring("no vision tower"));
  CHECK(first_error(read_text(kSmall, step + "adapter: {dora: {rank: 4, targets: [q_proj]}}"))
            .unavailable);
}

TEST_CASE("the Trainer trains models with images whose loss takes the number of targets") {
  const std::string trainer = "images: 1, implementation: {name: transformers, loop: trainer}";
  CHECK(read_text(kSmall, "seq_len: 64, " + trainer).ok());
  const std::string step = "seq_len: 2048, image_size: [252, 308], " + trainer;
  CHECK(read_text(kQwen2Vl2b, step).ok());
  CHECK(first_error(read_text(kQwen25Vl7b, step)).unavailable);
  const std::string cluster = "\nhardware: {gpu: h100-sxm-80gb, count: 2}";
  CHECK(read_text(kSmall, "seq_len: 64, " + trainer, "parallelism: {data: 2}" + cluster).ok());
  CHECK(first_error(read_text(kSmall, "seq_len: 64, " + trainer,
                              "parallelism: {data: 2, fsdp: {version: 2}}" + cluster))
            .unavailable);
}

TEST_CASE("replicas of DistributedDataParallel train models with images") {
  const auto read = [](const std::string& ddp, const std::string& implementation) {
    return read_text(kSmall, "seq_len: 64, images: 1, implementation: " + implementation,
                     "parallelism: {data: 2" + ddp + "}\nhardware: {gpu: h100-sxm-80gb, count: 2}");
  };
  CHECK(read("", "transformers").ok());
  const Checked<Job> finds = read(", ddp: {find_unused_parameters: true}", "transformers");
  REQUIRE(finds.ok());
  CHECK(finds.value().parallelism.ddp.finds_unused == true);
  const std::string llama = "{model_type: llama, hidden_size: 128, num_attention_heads: 4}";
  const Checked<Job> elsewhere =
      read_text(llama, "seq_len: 64, implementation: torchtitan",
                "parallelism: {data: 2, ddp: {find_unused_parameters: true}}\nhardware: {gpu: "
                "h100-sxm-80gb, count: 2}");
  CHECK(first_error(elsewhere).unavailable);
}

TEST_CASE("towers and projectors that have no graph are counted on, and named") {
  const auto reason = [](const std::string& hf) {
    return std::get<Unavailable>(lowered(job_of("seq_len: 64, images: 1", hf))).sentence;
  };
  const std::string small(kSmall);
  CHECK_THAT(reason(small.substr(0, small.size() - 1) + ", vision_feature_layer: [-2, -1]}"),
             ContainsSubstring("'vision_feature_layer'"));
}

}  // namespace memest
