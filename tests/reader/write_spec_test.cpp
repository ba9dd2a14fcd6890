// A spec written from a config reads back to the same model.
#include "memest/reader/write_spec.hpp"

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <sstream>
#include <string>

#include "memest/graph/parameters.hpp"
#include "memest/reader/read_job.hpp"
#include "reader/hf/hf_config.hpp"
#include "reader/text/value.hpp"
#include "truth_rows.hpp"

namespace memest {
namespace {

Checked<Value> tree_of(const std::string& text) {
  return parse_json(std::make_shared<const SourceText>(SourceText{"config.json", text}));
}

Checked<Job> job_of(const std::string& spec) {
  return read_job(std::make_shared<const SourceText>(SourceText{"spec.yaml", spec}));
}

std::string messages_of(const Diagnostics& diagnostics) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) text += diagnostic.message + "; ";
  return text;
}

/// The model that comes back when `config` is written as a spec and read.
ModelSpec reread(const ImportedModel& imported) {
  const std::string spec = write_spec(imported);
  CAPTURE(spec);
  const Checked<Job> job = job_of(spec);
  CAPTURE(messages_of(job.diagnostics()));
  REQUIRE(job.ok());
  CHECK(job.value().training.has_value());
  return job.value().model;
}

std::string written(const std::string& config) {
  const Checked<ImportedModel> imported = import_hf_config(tree_of(config).value(), "small");
  REQUIRE(imported.ok());
  return write_spec(imported.value());
}

}  // namespace

TEST_CASE("writing a spec and reading it keeps the model") {
  std::istringstream rows(test::truth_text("parameters.jsonl.gz"));
  int count = 0;
  for (std::string line; std::getline(rows, line); ++count) {
    const Checked<Value> row = tree_of(line);
    REQUIRE(row.ok());
    CAPTURE(row.value().find("name")->text);
    const Checked<ImportedModel> imported =
        import_hf_config(*row.value().find("config"), row.value().find("name")->text);
    REQUIRE(imported.ok());
    const ModelSpec& model = imported.value().model;
    const ModelSpec back = reread(imported.value());
    if (const auto* const decoder = std::get_if<DecoderSpec>(&model.architecture)) {
      CHECK(std::get<DecoderSpec>(back.architecture) == *decoder);
    }
    CHECK(back.family == model.family);
    CHECK(count_parameters(back).total == count_parameters(model).total);
    CHECK(count_parameters(back).tensors == count_parameters(model).tensors);
    CHECK(count_parameters(back).buffers == count_parameters(model).buffers);
  }
  CHECK(count >= 150);
}

TEST_CASE("what memest's own keys say is written with them, the rest with the config's") {
  const std::string sizes =
      R"("vocab_size": 1000, "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2,
         "num_attention_heads": 4, "eos_token_id": 7, "max_position_embeddings": 32768)";
  CHECK(written(R"({"model_type": "llama", )" + sizes + "}") ==
        "# small, from a Hugging Face config of model_type llama.\n"
        "# The keys of `model` are memest's own; they say all that the config says.\n"
        "model:\n"
        "  family: decoder\n"
        "  layers: 2\n"
        "  hidden_size: 64\n"
        "  heads: 4\n"
        "  kv_heads: 4\n"
        "  ffn_size: 160\n"
        "  vocab_size: 1000\n"
        "  activation: swiglu\n"
        "  norm: rmsnorm\n"
        "  position: rope\n"
        "  max_positions: 32768\n"
        "training:\n"
        "  seq_len: 8192  # tokens a sequence; the model takes up to 32768\n"
        "  global_batch: 512  # sequences a step over all GPUs\n"
        "  precision: mixed  # `memest recipes` lists the others\n"
        "  optimizer: adamw  # `memest optimizers` lists the others\n"
        "  # recompute: full  # none, full, selective, sqrt, {every: 2}\n"
        "  implementation: transformers\n");
  const std::string biased =
      written(R"({"attention_bias": true, "model_type": "llama", )" + sizes + "}");
  CHECK(biased.find("  hf:\n    model_type: llama\n    attention_bias: true\n") !=
        std::string::npos);
  CHECK(biased.find("eos_token_id") == std::string::npos);
}

TEST_CASE("labels become their number") {
  const std::string spec = written(
      R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"],
          "id2label": {"0": "a", "1": "b", "2": "c"}})");
  CHECK(spec.find("    num_labels: 3\n") != std::string::npos);
  CHECK(spec.find("id2label") == std::string::npos);
}

TEST_CASE("a checkpoint of codes is written as one") {
  // GPT-2 keeps the config's keys, LLaMA becomes memest's own.
  for (const char* model_type : {"llama", "gpt2"}) {
    const std::string config = std::string(R"({"model_type": ")") + model_type +
                               R"(", "quantization_config": {"quant_method": "bitsandbytes",
                                 "load_in_4bit": true, "bnb_4bit_quant_type": "nf4",
                                 "llm_int8_skip_modules": ["lm_head"]}})";
    const Checked<ImportedModel> imported = import_hf_config(tree_of(config).value(), "codes");
    REQUIRE(imported.ok());
    const std::string spec = write_spec(imported.value());
    CAPTURE(spec);
    const Checked<Job> job = job_of(spec);
    CAPTURE(messages_of(job.diagnostics()));
    REQUIRE(job.ok());
    CHECK(job.value().inference.has_value());
    REQUIRE(job.value().model.quantized);
    CHECK(*job.value().model.quantized == *imported.value().model.quantized);
  }
}

}  // namespace memest
