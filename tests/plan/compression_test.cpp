// Models made smaller: their parameters, and what the time of a forward is made of.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <map>
#include <string>

#include "../draws.hpp"
#include "jobs.hpp"
#include "memest/graph/parameters.hpp"
#include "memest/plan/estimate.hpp"

namespace memest {
namespace {

constexpr std::int64_t kLayers = 4;
constexpr std::int64_t kHidden = 256;
constexpr std::int64_t kFeedForward = 688;

Job decoder(const std::string& more) {
  return test::job_from(
      "model: {family: decoder, layers: 4, hidden_size: 256, heads: 8, kv_heads: 4, ffn_size: 688, "
      "vocab_size: 1000, activation: swiglu, norm: rmsnorm, position: rope}\n"
      "training: {seq_len: 128, micro_batch: 2, precision: bf16}\n" +
      more + "\nhardware: {gpu: h100-sxm-80gb}\n");
}

std::int64_t parameters(const std::string& more) {
  return count_parameters(decoder(more).model).total;
}

TEST_CASE("a pair of rank r has r(in + out) parameters in place of in x out") {
  const std::int64_t whole = parameters("");
  for (const std::int64_t rank : {1, 16, 200}) {
    const std::string written = "compression: {low_rank: {rank: " + std::to_string(rank) +
                                ", modules: [up_proj, mlp.down_proj]}}";
    CHECK(whole - parameters(written) ==
          2 * kLayers * (kHidden * kFeedForward - rank * (kHidden + kFeedForward)));
  }
}

TEST_CASE("a pruned model is the model of the sizes that stay") {
  const Job pruned = decoder(
      "compression: {prune: {layers: 3, hidden_size: 128, heads: 4, kv_heads: 2, ffn_size: 512}}");
  const Job small = test::job_from(
      "model: {family: decoder, layers: 3, hidden_size: 128, heads: 4, kv_heads: 2, head_dim: 32, "
      "ffn_size: 512, vocab_size: 1000, activation: swiglu, norm: rmsnorm, position: rope}\n"
      "training: {seq_len: 128, micro_batch: 2, precision: bf16}\nhardware: {gpu: "
      "h100-sxm-80gb}\n");
  CHECK(std::get<DecoderSpec>(pruned.model.architecture) ==
        std::get<DecoderSpec>(small.model.architecture));
}

TEST_CASE("factorised layers are answered on one GPU, by transformers") {
  const Job job = decoder("compression: {low_rank: {rank: 8, modules: [up_proj]}}");
  CHECK(std::get<MemoryAnswer>(estimate_job(job).memory).verdict == Verdict::fits);
  const JobEstimate unknown =
      estimate_job(decoder("compression: {low_rank: {rank: 8, modules: [c_fc]}}"));
  CHECK(std::get<Unavailable>(unknown.memory).sentence ==
        "this model's layers have no linear module that 'c_fc' of 'low_rank' names, or none whose "
        "factors are available yet");
}

/// A step of the small decoder in so many lines of keys.
std::int64_t allocated_peak(const Job& job) {
  const JobEstimate estimate = estimate_job(job);
  const auto& memory = std::get<MemoryAnswer>(estimate.memory);
  REQUIRE(memory.replayed() != nullptr);
  return memory.allocated().value();
}

Job trained(const std::string& training, const std::string& compression) {
  return test::job_from(
      "model: {family: decoder, layers: 4, hidden_size: 256, heads: 8, kv_heads: 4, ffn_size: 704, "
      "vocab_size: 1000, activation: swiglu, norm: rmsnorm, position: rope}\n"
      "training: {seq_len: 128, micro_batch: 2, precision: bf16, implementation: transformers" +
      training + "}\n" + compression + "\nhardware: {gpu: h100-sxm-80gb}\n");
}

constexpr const char* kLora = "{rank: 8, targets: [q_proj, down_proj]}}";

TEST_CASE("codes of a weight take the bits of each, and scales a share of a group's") {
  test::Draws draws(7);
  for (int i = 0; i < 200; ++i) {
    const std::int64_t elements = 64 * (1 + static_cast<std::int64_t>(draws.below(1'000'000)));
    for (const WeightFormat format : {WeightFormat::nf4, WeightFormat::fp4, WeightFormat::hqq8,
                                      WeightFormat::hqq4, WeightFormat::hqq2, WeightFormat::hqq1}) {
      for (const bool nested : {false, true}) {
        const QuantizedWeights quantized{.format = format, .double_quant = nested};
        const std::int64_t codes = elements * row_of(format).bits / 8;
        const std::int64_t scales = stored_bytes(quantized, {elements, 64}, DType::bf16) - codes;
        CAPTURE(row_of(format).word, nested, elements);
        const bool hqq = row_of(format).of_hqq();
        const std::int64_t groups = elements / 64;
        if (hqq || !nested) {
          CHECK(scales == groups * 4 + (hqq ? 0 : 64));
        } else {
          CHECK(scales == groups + 4 * ((groups + 255) / 256) + 64 + 4 + 1024);
        }
      }
    }
  }
}

TEST_CASE("a weight in int8 takes a byte an element and a float a channel of its result") {
  const QuantizedWeights quantized{.format = WeightFormat::int8, .double_quant = false};
  CHECK(stored_bytes(quantized, {4096 * 14336, 14336}, DType::bf16) == 4096 * 14336 + 4 * 14336);
}

constexpr const char* kInt8 = "compression: {quantize: {weights: int8}}";

TEST_CASE("inputs of LLM.int8() stay in checkpoints, and go with the loss") {
  const std::string lora = ", adapter: {lora: " + std::string(kLora);
  const auto peak = [&](const char* more) {
    return allocated_peak(trained(lora + ", steps: 3" + more, kInt8));
  };
  // [2, 128, 2 x 256 + 704 + 256] in bf16 of each layer: both norms' and attention's results, and
  // the feed-forward's; the first layer's query has an input without a gradient.
  constexpr std::int64_t kInputs = 2 * 128 * (3 * 256 + 704) * 2;
  const std::int64_t kept = peak(", recompute: full");
  const std::int64_t dropped = peak(", recompute: {full: {reentrant: true}}");
  // Of two steps, as the loop keeps the last loss.
  CHECK(kept - dropped > 2 * 3 * kInputs);
  CHECK(kept - dropped < 2 * 5 * kInputs);
}

TEST_CASE("an interval over LLM.int8() goes up to outliers in every column, unless none is") {
  const std::string lora = ", adapter: {lora: " + std::string(kLora);
  const auto high = [&](const std::string& quantize) {
    const JobEstimate estimate =
        estimate_job(trained(lora, "compression: {quantize: {" + quantize + "}}"));
    const auto& memory = std::get<MemoryAnswer>(estimate.memory);
    return memory.high().value() - memory.device().value();
  };
  const std::int64_t more = high("weights: int8") - high("weights: int8, threshold: 0");
  // A copy of every input, of one step and the one before.
  constexpr std::int64_t kInputs = 4 * 2 * 128 * (6 * 256 + 704) * 2;
  CHECK(more > kInputs);
  CHECK(more < 2 * kInputs + 256 * 704 * 16);
}

TEST_CASE("LLM.int8() multiplies forward in 16 bits' time and backward in the input's type") {
  const auto seconds = [](const std::string& precision, const char* compression) {
    const JobEstimate estimate = estimate_job(test::job_from(
        "model: {family: decoder, layers: 4, hidden_size: 1024, heads: 8, kv_heads: 4, ffn_size: "
        "2816, vocab_size: 1000, activation: swiglu, norm: rmsnorm, position: rope}\n"
        "training: {seq_len: 2048, micro_batch: 2, implementation: transformers, precision: " +
        precision + ", adapter: {lora: " + kLora + "}\n" + compression +
        "\nhardware: {gpu: h100-sxm-80gb}\n"));
    return std::get<TimeEstimate>(estimate.time).step.value();
  };
  CHECK(seconds("bf16", kInt8) > seconds("bf16", ""));
  CHECK(seconds("amp-bf16", kInt8) > seconds("bf16", kInt8));
}

TEST_CASE("QLoRA is LoRA over nf4 with quantised scales, and has the model's parameters") {
  const std::string by_hand = "compression: {quantize: {weights: nf4, double_quant: true}}";
  for (const char* precision : {"bf16", "amp-bf16"}) {
    const std::string same = std::string(", precision: ") + precision;
    const auto job = [&](const std::string& adapter, const std::string& compression) {
      Job made = trained(", adapter: " + adapter, compression);
      return made;
    };
    const Job qlora = job("{qlora: " + std::string(kLora), "");
    const Job lora = job("{lora: " + std::string(kLora), "");
    CHECK(allocated_peak(qlora) == allocated_peak(job("{lora: " + std::string(kLora), by_hand)));
    CHECK(allocated_peak(qlora) < allocated_peak(lora));
    CHECK(count_parameters(qlora.model).total == count_parameters(lora.model).total);
    CHECK(count_parameters(qlora.model).trainable == count_parameters(lora.model).trainable);
  }
}

TEST_CASE("a module that is skipped keeps its weight") {
  const std::string all = "compression: {quantize: {weights: hqq4}}";
  const std::string less =
      "compression: {quantize: {weights: hqq4, skip_modules: [lm_head, up_proj]}}";
  const auto coded = [](const Job& job) {
    std::int64_t elements = 0;
    for (const ParameterTensor& tensor : parameters_of(job.model).parameters) {
      if (tensor.quantized) elements += tensor.count * tensor.shape[0] * tensor.shape[1];
    }
    return elements;
  };
  const std::string adapter = ", adapter: {lora: " + std::string(kLora);
  CHECK(coded(trained(adapter, all)) - coded(trained(adapter, less)) == 4 * 256 * 704);
}

TEST_CASE("HQQ's groups divide every weight, and fill bytes") {
  const std::string adapter = ", adapter: {lora: " + std::string(kLora);
  const auto refusal = [&](const std::string& quantize) -> std::string {
    const JobEstimate estimate =
        estimate_job(trained(adapter, "compression: {quantize: {" + quantize + "}}"));
    const auto* reason = std::get_if<Unavailable>(&estimate.memory);
    return reason == nullptr ? "" : reason->sentence;
  };
  CHECK(refusal("weights: hqq8, group_size: 1024").empty());
  CHECK(refusal("weights: hqq1, group_size: 512").empty());
  CHECK(refusal("weights: hqq2, group_size: 48") ==
        "HQQ cannot keep the 65536 weights of 'self_attn.q_proj.base_layer.weight' in groups of 48 "
        "and bytes of 4 codes");
}

TEST_CASE("the time of a step over codes has what makes the weights beside the products") {
  const auto seconds = [](const Job& job) {
    const JobEstimate estimate = estimate_job(job);
    return std::get<TimeEstimate>(estimate.time).step.value();
  };
  const std::string adapter = ", adapter: {lora: " + std::string(kLora);
  const double whole = seconds(trained(adapter, ""));
  const double four = seconds(trained(adapter, "compression: {quantize: {weights: nf4}}"));
  const double hqq = seconds(trained(adapter, "compression: {quantize: {weights: hqq1}}"));
  CHECK(four > whole);
  CHECK(hqq > four);  // unpacked in tensors of its own
}

TEST_CASE("sets of weights that layers share are used evenly, each first by its owner") {
  for (const SharedOrder order : {SharedOrder::repeat, SharedOrder::cycle}) {
    for (const std::int64_t layers : {1, 2, 6, 24}) {
      for (std::int64_t distinct = 1; distinct <= layers; ++distinct) {
        if (layers % distinct != 0) continue;
        const SharedLayers shared{distinct, order};
        std::map<std::int64_t, std::int64_t> uses;
        for (std::int64_t layer = 0; layer < layers; ++layer) {
          const std::int64_t owner = shared.owner_of(layer, layers);
          CHECK(owner <= layer);
          CHECK(shared.owner_of(owner, layers) == owner);
          ++uses[owner];
        }
        CHECK(static_cast<std::int64_t>(uses.size()) == distinct);
        for (const auto& [owner, count] : uses) CHECK(count == layers / distinct);
      }
    }
  }
}

TEST_CASE(
    "shared layers have fewer parameters and all FLOPs, and none shared is the model itself") {
  const Job whole = trained("", "");
  const JobEstimate full = estimate_job(whole);
  for (const char* order : {"repeat", "cycle"}) {
    const auto shared = [&](int distinct) {
      return trained("", "compression: {share_layers: {distinct: " + std::to_string(distinct) +
                             ", order: " + order + "}}");
    };
    CHECK(allocated_peak(shared(4)) == allocated_peak(whole));
    const JobEstimate half = estimate_job(shared(2));
    CHECK(std::get<FlopsEstimate>(half.flops).forward ==
          std::get<FlopsEstimate>(full.flops).forward);
    const std::int64_t layer = (count_parameters(whole.model).total - 2 * 1000 * 256 - 256) / 4;
    CHECK(count_parameters(whole.model).total - count_parameters(shared(2).model).total ==
          2 * layer);
    CHECK(allocated_peak(shared(2)) < allocated_peak(whole));
    CHECK(allocated_peak(shared(1)) < allocated_peak(shared(2)));
  }
}

TEST_CASE("a distillation has the student's step, and the teacher's weights and forward beside") {
  const std::string sizes =
      "family: decoder, layers: 6, hidden_size: 512, heads: 8, kv_heads: 4, ffn_size: 1024, "
      "vocab_size: 1000, activation: swiglu, norm: rmsnorm, position: rope";
  const Job alone = trained("", "");
  const Job taught = trained(", teacher: {model: {" + sizes + "}}", "");
  const Job teacher =
      test::job_from("model: {" + sizes +
                     "}\ninference: {prompt: 128, batch: 2, precision: bf16, logits: all, "
                     "implementation: transformers}\nhardware: {gpu: "
                     "h100-sxm-80gb}\n");
  const std::int64_t weights = 2 * count_parameters(teacher.model).total;
  CHECK(allocated_peak(taught) > allocated_peak(alone) + weights);
  CHECK(allocated_peak(taught) < allocated_peak(alone) + allocated_peak(teacher));
  const auto flops = [](const Job& job) {
    return std::get<FlopsEstimate>(estimate_job(job).flops).forward;
  };
  CHECK(flops(taught) == flops(alone) + flops(teacher));
  const auto seconds = [](const Job& job) {
    return std::get<TimeEstimate>(estimate_job(job).time).step.value();
  };
  const auto of_teacher = [](const Job& job) {
    double sum = 0;
    const JobEstimate estimate = estimate_job(job);
    for (const OpTime& op : std::get<TimeEstimate>(estimate.time).ops) {
      if (op.block.starts_with("teacher's ")) sum += op.seconds.value();
    }
    return sum;
  };
  CHECK(of_teacher(taught) > 0);
  CHECK(seconds(taught) > seconds(alone) + of_teacher(taught));
}

}  // namespace
}  // namespace memest
