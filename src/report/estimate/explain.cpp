// The numbers of an answer, each with its formula.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "memest/report/explain_report.hpp"
#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "report/pages/coverage.hpp"

namespace memest {
namespace {

std::string bytes_text(Bytes bytes) {
  return fmt::format("{} B ({})", grouped(bytes.value()), sized_text(bytes));
}

Explanation of_bytes(std::string group, std::string name, Bytes value) {
  Explanation result;
  result.group = std::move(group);
  result.name = std::move(name);
  result.value = bytes_text(value);
  result.number = value;
  result.unit = "B";
  return result;
}

std::string source_of(const Margin& margin) {
  if (margin.scale == RunScale::unrecorded) {
    return "no run of this kind was recorded: the farthest ends of any implementation's on several "
           "GPUs";
  }
  const std::string records =
      fmt::format("{} recorded runs of {}{}", margin.records,
                  margin.implementation ? name_of(*margin.implementation) : "every implementation",
                  margin.recomputes ? " with recompute" : " without recompute");
  if (margin.method == EstimateMethod::replay) {
    return records +
           ": low is the largest share by which one reserved less than its replay, high "
           "the 90th percentile of those that reserved more";
  }
  return fmt::format(
      "{}: their allocated peaks are at least {} of the closed form; reserved, the 90th percentile",
      records, 1 - margin.low);
}

std::string shares_text(double low, double high) {
  return fmt::format("low {}, high {}", percent_text(low), percent_text(high));
}

Explanation of_interval(Bytes low, Bytes high, const Margin& margin, const std::string& whole) {
  Explanation interval = of_bytes("memory", "interval", high);
  interval.value = fmt::format("{} to {}", bytes_text(low), bytes_text(high));
  interval.formula = fmt::format("{0} · (1 − low) to {0} · (1 + high), and what is outside", whole);
  interval.substituted = shares_text(margin.low, margin.high);
  interval.source = source_of(margin);
  return interval;
}

/// Under releases of the programs that nobody recorded.
void add_any_release(std::vector<Explanation>& out, const MemoryAnswer& answer) {
  const std::optional<BytesInterval> interval = answer.device_of_any_release();
  if (!interval) return;
  Explanation row = of_bytes("memory", "interval of any release", interval->high);
  row.value = fmt::format("{} to {}", bytes_text(interval->low), bytes_text(interval->high));
  row.formula = "the wider of the interval and device · (1 − low) to device · (1 + high)";
  row.substituted = shares_text(answer.published.device.low, answer.published.device.high);
  row.source = coverage_text(answer.published.device, "peaks") + " (docs/model.md)";
  out.push_back(std::move(row));
}

/// A sum over named parts: "weights + gradients", "2,147,483,648 + 1,024".
struct Sum {
  std::string names;
  std::string values;
  std::vector<SummedNumber> summed;

  void add(const std::string& name, Bytes value) {
    const char* plus = names.empty() ? "" : " + ";
    names += plus + name;
    values += plus + grouped(value.value());
    summed.push_back({name, value});
  }
};

Explanation of_sum(std::string name, Bytes value, Sum sum, std::string source) {
  Explanation result = of_bytes("memory", std::move(name), value);
  result.formula = std::move(sum.names);
  result.substituted = std::move(sum.values);
  result.summed = std::move(sum.summed);
  result.source = std::move(source);
  return result;
}

/// Explains what the allocator makes of the terms that are alive at the peak.
void add_replay(std::vector<Explanation>& out, const MemoryAnswer& answer) {
  const Bytes reserved = *answer.reserved();
  Explanation segments = of_bytes("memory", "reserved", reserved);
  segments.formula = "the largest sum of segments";
  segments.source = "PyTorch's caching allocator: segments of 2 MiB, 20 MiB or a multiple of 2 MiB";
  out.push_back(std::move(segments));
  Sum device;
  device.add("reserved", reserved);
  device.add("what is outside the allocator", answer.device() - reserved);
  out.push_back(of_sum("device", answer.device(), std::move(device), "what nvidia-smi shows"));
  out.push_back(of_interval(answer.low(), answer.high(), answer.replay_margin, "reserved"));
  add_any_release(out, answer);
}

void add_memory(std::vector<Explanation>& out, const MemoryAnswer& answer) {
  Sum allocated;
  Sum device;
  device.add("allocated", answer.estimate.allocated());
  const std::vector<std::uint16_t>& outside = answer.ledger.outside_allocator;
  for (const Term& term : answer.estimate.terms) {
    const LedgerTerm& meaning = answer.ledger.terms[term.index];
    Explanation row = of_bytes(std::string(name_of(meaning.group)), meaning.name, term.value);
    row.expression = meaning.formula;
    row.bindings = answer.ledger.bindings;
    row.formula = meaning.rule.empty()
                      ? meaning.formula.text()
                      : fmt::format("{}: {}", meaning.formula.text(), meaning.rule);
    row.substituted = meaning.formula.substituted(answer.ledger.bindings);
    row.source = meaning.source;
    out.push_back(std::move(row));
    const bool is_outside = std::find(outside.begin(), outside.end(), term.index) != outside.end();
    (is_outside ? device : allocated).add(meaning.name, term.value);
  }
  const std::string peak =
      answer.ledger.instants[answer.estimate.instants[answer.estimate.peak].index].name;
  if (const ReplayedSteps* steps = answer.replayed()) {
    out.push_back(of_sum("allocated", answer.allocated(), std::move(allocated),
                         "alive at the replay's peak: " +
                             moment_of_event(steps->step, steps->unpressed().peak.event)));
    if (answer.closed_form) {
      Explanation closed = of_bytes("memory", "closed form", *answer.closed_form);
      closed.formula = "the allocated peak by formulas alone, as a search over layouts takes it";
      out.push_back(std::move(closed));
    }
    add_replay(out, answer);
    return;
  }
  out.push_back(of_sum("allocated", answer.estimate.allocated(), std::move(allocated),
                       "the terms alive at the peak: " + peak));
  out.push_back(of_sum("device", answer.estimate.device(), std::move(device),
                       "what nvidia-smi shows if nothing is fragmented"));
  out.push_back(of_interval(answer.estimate.low(), answer.estimate.high(), answer.estimate.margin,
                            "allocated"));
  add_any_release(out, answer);
}

Explanation of_flops(std::string name, Flops flops, std::string formula, std::string source) {
  Explanation result;
  result.group = "flops";
  result.name = std::move(name);
  result.formula = std::move(formula);
  result.value = fmt::format("{} FLOP ({})", grouped(flops.value()), flops_text(flops));
  result.number = flops;
  result.unit = "FLOP";
  result.source = std::move(source);
  return result;
}

/// 6·Φ·tokens, of experts the active ones; 2·Φ·tokens of a forward alone. In words where a share is
/// rounded, where every pass has tokens of its own, and where layers share parameters.
Explanation model_flops(const Job& job, const JobEstimate& estimate, Flops flops) {
  const ForwardSpec& pass = *job.forward();
  const Parallelism& layout = job.parallelism;
  Bindings bindings;
  bindings.set(Symbol::parameters, estimate.parameters.active)
      .set(Symbol::micro_batch, pass.micro_batch)
      .set(Symbol::seq_len, pass.seq_len)
      .set(Symbol::micro_batches, job.training ? job.training->gradient_accumulation : 1);
  Expr expression =
      Expr(job.training ? 6 : 2) * Symbol::parameters * Symbol::micro_batch * Symbol::seq_len;
  if (job.training) expression *= Symbol::micro_batches;
  for (const auto& [letter, ranks] :
       {std::pair{Symbol::tensor, layout.tensor}, std::pair{Symbol::pipeline, layout.pipeline},
        std::pair{Symbol::context, layout.context}}) {
    bindings.set(letter, ranks);
    if (ranks > 1) expression = expression / letter;
  }
  Explanation row = of_flops("model", flops, job.training ? "6·Φ·tokens" : "2·Φ·tokens",
                             job.training ? "the field's 6·Φ·tokens (docs/model.md)"
                                          : "the forward's third of the field's 6·Φ·tokens "
                                            "(docs/model.md)");
  if (expression.flops(bindings) != flops) return row;
  row.formula = expression.text();
  row.substituted = expression.substituted(bindings);
  row.expression = std::move(expression);
  row.bindings = bindings;
  return row;
}

void add_flops(std::vector<Explanation>& out, const Job& job, const JobEstimate& estimate,
               const FlopsEstimate& flops) {
  out.push_back(of_flops("forward", flops.forward, "2·m·n·k over every contraction, m micro-steps",
                         "torch.utils.flop_counter; no causal halving"));
  out.push_back(of_flops("backward", flops.backward,
                         "both gradients of every contraction, and what is recomputed",
                         "torch.utils.flop_counter; no causal halving"));
  Explanation executed =
      of_flops("executed", flops.executed(), "forward + backward", "torch.utils.flop_counter");
  executed.substituted =
      fmt::format("{} + {}", grouped(flops.forward.value()), grouped(flops.backward.value()));
  executed.summed = {{"forward", flops.forward}, {"backward", flops.backward}};
  out.push_back(std::move(executed));
  out.push_back(of_flops("computed", flops.computed,
                         "executed, of causal fused attention half of the scores",
                         "HFU counts these (docs/model.md)"));
  out.push_back(of_flops("required", flops.required,
                         "computed, without what checkpoints and attention's backward make again",
                         "MFU counts these (docs/model.md)"));
  out.push_back(model_flops(job, estimate, flops.model));
  out.push_back(of_flops("palm", flops.palm,
                         job.inference ? "model + 4·L·a·d·s a token" : "model + 12·L·a·d·s a token",
                         "Chowdhery et al., PaLM, appendix B (arXiv 2204.02311)"));
  out.push_back(of_flops("megatron", flops.megatron, "matmuls, and the causal half of attention",
                         "Narayanan et al., section 5.1 (arXiv 2104.04473), causal half"));
}

Explanation of_number(std::string group, std::string name, double value, std::string unit) {
  Explanation result;
  result.group = std::move(group);
  result.name = std::move(name);
  result.number = value;
  result.unit = std::move(unit);
  return result;
}

void add_loading(std::vector<Explanation>& out, const InputPipeline& pipeline) {
  const DataLoading& loading = pipeline.loading;
  constexpr const char* kSource =
      "torch.utils.data's _MultiProcessingDataLoaderIter (docs/techniques/input-pipeline.md)";
  const auto row = [&](const char* name, double value, const char* unit, std::string text) {
    Explanation made = of_number("time", name, value, unit);
    made.value = std::move(text);
    made.source = kSource;
    return made;
  };
  const auto samples = [](double rate) { return significant_text(rate) + " samples/s"; };
  Explanation supply =
      row("data loader's supply", pipeline.supply, "samples/s", samples(pipeline.supply));
  supply.formula = "workers / sample_seconds, of one rank; without workers one process";
  supply.substituted =
      fmt::format("{} / {}", loading.workers, seconds_text(*loading.sample_seconds));
  out.push_back(std::move(supply));
  Explanation demand = row("step's demand", pipeline.demand, "samples/s", samples(pipeline.demand));
  demand.formula = "micro_batch · micro-steps / step without waiting";
  out.push_back(std::move(demand));
  Explanation wait =
      row("wait for the data loader", pipeline.wait.value(), "s", seconds_text(pipeline.wait));
  wait.formula = loading.workers == 0
                     ? "samples of a step · sample_seconds"
                     : "max(step, samples of a step · sample_seconds / workers) − step, more where "
                       "workers · prefetch are fewer batches than a step takes";
  out.push_back(std::move(wait));
  Explanation used =
      row("GPU at work", pipeline.utilisation, "", percent_text(pipeline.utilisation));
  used.formula = "step without waiting / step";
  out.push_back(std::move(used));
}

void add_time(std::vector<Explanation>& out, const TimeEstimate& time) {
  Explanation step = of_number("time", "step", time.step.value(), "s");
  step.value = fmt::format("{} ({} to {})", seconds_text(time.step), seconds_text(time.low),
                           seconds_text(time.high));
  step.formula = "over every operation, what its kernels take by the laws of their times";
  step.source = std::string(time.rule);
  out.push_back(std::move(step));
  if (time.published.runs > 0) {
    Explanation interval = of_number("time", "interval", time.high.value(), "s");
    interval.value = fmt::format("{} to {}", seconds_text(time.low), seconds_text(time.high));
    interval.formula =
        "the wider of what is known of its kernels and step · (1 − low) to step · (1 + high)";
    interval.substituted = shares_text(time.published.low, time.published.high);
    interval.source = coverage_text(time.published, "steps") + " (docs/calibration.md)";
    out.push_back(std::move(interval));
  }
  const auto utilisation = [&](const char* name, double value, const char* work) {
    Explanation row = of_number("time", name, value, "");
    row.value = percent_text(value);
    row.formula = fmt::format("{} FLOPs / (step · peak rate)", work);
    row.source = "peak: the datasheet's dense rate of the type that the layers' products run in";
    out.push_back(std::move(row));
  };
  utilisation("MFU", time.mfu, "required");
  utilisation("HFU", time.hfu, "computed");
  if (time.loading) add_loading(out, *time.loading);
}

void add_time(std::vector<Explanation>& out, const InferenceTime& time) {
  const auto add = [&](const char* name, const std::optional<ForwardTime>& pass) {
    if (!pass) return;
    Explanation row = of_number("time", name, pass->expected.value(), "s");
    row.value = fmt::format("{} ({} to {})", seconds_text(pass->expected), seconds_text(pass->low),
                            seconds_text(pass->high));
    row.formula = "max(kernels, launched kernels · host's time of a launch)";
    row.substituted = fmt::format("max({}, {} launches in {})", seconds_text(pass->kernels),
                                  grouped(pass->launched), seconds_text(pass->host));
    row.source = std::string(time.host_source);
    out.push_back(std::move(row));
  };
  add("prefill", time.prefill);
  add("first token", time.first_token);
  add("last token", time.last_token);
  Explanation call = of_number("time", "call", time.whole.value(), "s");
  call.value = fmt::format("{} ({} to {})", seconds_text(time.whole), seconds_text(time.low),
                           seconds_text(time.high));
  call.formula = "prefill + Σ tokens behind it";
  call.source = std::string(time.rule);
  out.push_back(std::move(call));
}

void add_cost(std::vector<Explanation>& out, const Job& job, const CostEstimate& cost) {
  Explanation per_step = of_number("money", "cost of a step", cost.per_step.value(), "USD");
  per_step.value = dollars_text(cost.per_step);
  per_step.formula = job.inference ? "price · GPUs · call / 3600" : "price · GPUs · step / 3600";
  if (job.hardware.price) {
    per_step.substituted =
        fmt::format("{} USD/h · {} · {} / 3600", significant_text(job.hardware.price->value()),
                    job.hardware.count, job.inference ? "call" : "step");
  }
  per_step.source = cost.source;
  out.push_back(std::move(per_step));
  Explanation tokens =
      of_number("money", "cost of a billion tokens", cost.per_billion_tokens.value(), "USD");
  tokens.value = dollars_text(cost.per_billion_tokens);
  tokens.formula = "cost of a step · 10⁹ / tokens of a step";
  tokens.source = cost.source;
  out.push_back(std::move(tokens));
}

std::string lowercase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return text;
}

void add_host_memory(std::vector<Explanation>& out, const HostMemory& memory) {
  Sum sum;
  for (const HostTerm& term : memory.terms) {
    Explanation row = of_bytes("host memory", term.name, term.taken());
    row.formula = term.formula;
    row.substituted = term.pinned == Bytes()
                          ? bytes_text(term.bytes) + ", unverified"
                          : bytes_text(term.bytes) + ", page-locked in powers of two";
    row.source = term.source;
    out.push_back(std::move(row));
    if (!term.on_nvme && !term.of_node) sum.add(term.name, term.taken());
  }
  Explanation total = of_sum("host memory", memory.taken(), std::move(sum), "of one GPU");
  total.group = "host memory";
  out.push_back(std::move(total));
}

}  // namespace

std::vector<Explanation> explain(const Job& job, const JobEstimate& estimate) {
  std::vector<Explanation> out;
  if (const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory)) {
    add_memory(out, *memory);
    if (memory->host) add_host_memory(out, *memory->host);
  }
  const auto* flops = std::get_if<FlopsEstimate>(&estimate.flops);
  if (flops != nullptr) add_flops(out, job, estimate, *flops);
  if (const auto* time = std::get_if<TimeEstimate>(&estimate.time)) add_time(out, *time);
  if (estimate.inference_time) add_time(out, *estimate.inference_time);
  if (const auto* cost = std::get_if<CostEstimate>(&estimate.cost)) add_cost(out, job, *cost);
  return out;
}

Checked<std::vector<Explanation>> select(std::vector<Explanation> explanations,
                                         const std::string& term) {
  const std::string wanted = lowercase(term);
  std::vector<std::string> known;
  std::vector<Explanation> chosen;
  for (const Explanation& row : explanations) {
    for (const std::string& word : {row.name.substr(0, row.name.find(" (")), row.group}) {
      if (std::find(known.begin(), known.end(), word) == known.end()) known.push_back(word);
    }
    const bool matches = lowercase(row.name).find(wanted) != std::string::npos ||
                         lowercase(row.group).find(wanted) != std::string::npos;
    if (matches) chosen.push_back(row);
  }
  if (!chosen.empty() || explanations.empty()) return chosen;
  const std::string nearest = nearest_name(term, known);
  std::string names;
  for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
  return Diagnostic{Severity::error,
                    {},
                    "no number of this answer is called '" + term + "'",
                    nearest.empty() ? "there are " + names : "did you mean '" + nearest + "'?"};
}

}  // namespace memest
