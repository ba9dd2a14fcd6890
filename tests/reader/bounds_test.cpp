// Every number of a spec at its bounds and beyond them: refused where it stands, or read; never the
// end of the program.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "memest/reader/read_job.hpp"
#include "reader/keys/keys.hpp"

namespace memest {
namespace {

struct Number {
  std::string path;  ///< "training.micro_batch"
  const KeyShape* shape = nullptr;
};

/// Every number that a path of keys leads to.
void find_numbers(std::span<const Key> keys, const std::string& prefix, std::vector<Number>& all) {
  for (const Key& key : keys) {
    const std::string path = prefix + std::string(key.name);
    for (const KeyShape& shape : key.shapes) {
      if (shape.form == Form::count || shape.form == Form::number) all.push_back({path, &shape});
      if (shape.form == Form::table) find_numbers(shape.keys, path + ".", all);
    }
  }
}

Checked<Job> read(const std::string& preset, const std::string& set) {
  return read_job(ReadRequest{.files = {preset}, .overrides = {{"--set", set}}});
}

std::vector<std::string> values_around(const KeyShape& shape) {
  if (shape.form == Form::number) return {"-1", "0", "1e-300", "1e300"};
  return {std::to_string(shape.least - 1), std::to_string(shape.least), std::to_string(shape.most),
          std::to_string(shape.most + 1),  "-9223372036854775808",      "9223372036854775807"};
}

TEST_CASE("every number of a spec is refused beyond its bounds") {
  std::vector<Number> numbers;
  find_numbers(spec_keys(), "", numbers);
  CHECK(numbers.size() > 60);
  for (const Number& number : numbers) {
    for (const std::string& value : values_around(*number.shape)) {
      const std::string set = number.path + "=" + value;
      INFO(set);
      CHECK_NOTHROW(read("llama-3-8b", set));
      if (number.shape->form != Form::count || number.shape->least < 1) continue;
      const bool out = value == std::to_string(number.shape->least - 1) || value.front() == '-';
      if (out) CHECK_FALSE(read("llama-3-8b", set).ok());
    }
  }
}

TEST_CASE("zeros of a whole layout are refused one by one") {
  for (const char* implementation : {"transformers", "torchtitan", "megatron", "nanogpt"}) {
    const auto text = std::make_shared<const SourceText>(SourceText{
        "zeros.yaml", std::string("model: gpt2\ntraining: {seq_len: 0, micro_batch: 0, "
                                  "gradient_accumulation: 0, global_batch: 0, recompute: {full: "
                                  "{layers: 0}}, implementation: ") +
                          implementation +
                          "}\nparallelism: {data: 0, tensor: 0, pipeline: 0, context: 0, expert: "
                          "0, expert_tensor: 0, virtual_stages: 0, first_stage_layers: 0, "
                          "last_stage_layers: 0, fsdp: {version: 0, replicate: 0}, deepspeed: "
                          "{sub_group_size: 0, reduce_bucket_size: 0}}\nhardware: {count: 0, "
                          "gpus_per_node: 0}\n"});
    const Checked<Job> job = read_job(text);
    CHECK_FALSE(job.ok());
    CHECK(job.diagnostics().size() >= 19);
  }
}

}  // namespace
}  // namespace memest
