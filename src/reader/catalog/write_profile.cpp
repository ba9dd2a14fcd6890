// A profile as its file.
#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memest/reader/profile.hpp"
#include "memest/spec/gpu/law_parameters.hpp"
#include "reader/keys/keys.hpp"
#include "reader/samples/sample_row.hpp"

namespace memest {
namespace {

constexpr std::size_t kWidth = 100;

std::string digits_of(double value) {
  constexpr int kDecimals = 5;
  std::array<char, 64> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                 std::chars_format::fixed, kDecimals);
  std::string text(digits.data(), end.ptr);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string parameter_text(double value, ParameterUnit unit) {
  switch (unit) {
    case ParameterUnit::none:
      return digits_of(value);
    case ParameterUnit::seconds:
      return digits_of(value * 1e6) + " us";
    case ParameterUnit::bytes:
      return digits_of(value / 1e6) + " MB";
    case ParameterUnit::bytes_per_second:
      return digits_of(value / 1e9) + " GB/s";
  }
  unreachable("every unit is written");
}

/// Text as YAML, in quotes: names and versions hold anything.
std::string quoted_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

/// "open a, b, c close", broken between items where a line is full.
std::string wrapped(std::string head, const std::vector<std::string>& items, char open,
                    char close) {
  const std::size_t indent = head.size() + 1;
  std::string text = std::move(head) + open;
  std::size_t column = indent;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) {
      text += ',';
      ++column;
      if (column + items[i].size() + 2 > kWidth) {
        text += '\n' + std::string(indent, ' ');
        column = indent;
      } else {
        text += ' ';
        ++column;
      }
    }
    text += items[i];
    column += items[i].size();
  }
  return text + close + '\n';
}

template <class Law, std::size_t kCount>
std::vector<std::string> parameter_texts(const Law& law,
                                         const std::array<LawParameter<Law>, kCount>& parameters) {
  std::vector<std::string> texts;
  for (const LawParameter<Law>& parameter : parameters) {
    texts.push_back(std::string(parameter.name) + ": " +
                    parameter_text(law.*parameter.value, parameter.unit));
  }
  return texts;
}

template <class Law, std::size_t kCount>
std::string law_text(std::string_view key, const Law& law,
                     const std::array<LawParameter<Law>, kCount>& parameters) {
  return wrapped("    " + std::string(key) + ": ", parameter_texts(law, parameters), '{', '}');
}

std::string laws_of(const MatmulLaw& law) {
  std::string text = law_text("law", law.product, kTileParameters);
  if (law.data_gradient != 1 || law.weight_gradient != 1) {
    text += law_text("passes", law, kPassParameters);
  }
  if (law.cast) text += law_text("cast", *law.cast, kStreamParameters);
  return text;
}
std::string laws_of(const AttentionLaw& law) { return law_text("law", law, kAttentionParameters); }
std::string laws_of(const StreamLaw& law) { return law_text("law", law, kStreamParameters); }
std::string laws_of(const CollectiveLaw& law) {
  return law_text("law", law, kCollectiveParameters);
}
std::string laws_of(const TransferLaw& law) { return law_text("law", law, kTransferParameters); }
std::string laws_of(const LaunchLaw& law) { return law_text("law", law, kLaunchParameters); }

std::vector<std::string> words_of(const MatmulKind& kind) {
  const MatmulShape shape{
      .operand = kind.operand, .scaling = kind.scaling, .tensor_float = kind.tensor_float};
  std::vector<std::string> words = {"operand: " + std::string(operand_word(shape))};
  if (kind.cast_included) words.emplace_back("cast_included: true");
  return words;
}
std::vector<std::string> words_of(const AttentionKind& kind) {
  std::vector<std::string> words = {"dtype: " + std::string(name_of(kind.dtype)),
                                    "pass: " + std::string(name_of(kind.pass)),
                                    std::string("causal: ") + (kind.causal ? "true" : "false")};
  if (!kind.kernel.empty()) words.insert(words.begin(), "kernel: " + quoted_text(kind.kernel));
  return words;
}
std::vector<std::string> words_of(const StreamKind& kind) {
  return {"op: " + std::string(name_of(kind.op)), "pass: " + std::string(name_of(kind.pass)),
          "dtype: " + std::string(name_of(kind.dtype))};
}
std::vector<std::string> words_of(const CollectiveKind& kind) {
  return {"op: " + std::string(name_of(kind.op)), "gpus: " + std::to_string(kind.gpus)};
}
std::vector<std::string> words_of(TransferPath path) {
  return {"path: " + std::string(name_of(path))};
}
std::vector<std::string> words_of(LaunchPath path) {
  return {"path: " + std::string(name_of(path))};
}

std::string residuals_text(const LawResiduals& residuals) {
  return wrapped(
      "    residuals: ",
      {"fitted: " + std::to_string(residuals.fitted), "tested: " + std::to_string(residuals.tested),
       "mean_absolute: " + digits_of(residuals.mean_absolute), "bias: " + digits_of(residuals.bias),
       "low: " + digits_of(residuals.low), "high: " + digits_of(residuals.high),
       "shortest: " + parameter_text(residuals.shortest, ParameterUnit::seconds),
       "longest: " + parameter_text(residuals.longest, ParameterUnit::seconds)},
      '{', '}');
}

template <class Fits>
std::string fits_text(std::string_view key, const Fits& fits) {
  if (fits.empty()) return "";
  std::string text = std::string(key) + ":\n";
  for (const auto& fit : fits) {
    const char* lead = "  - ";
    for (const std::string& word : words_of(fit.kind)) {
      text += lead + word + '\n';
      lead = "    ";
    }
    text += "    provenance: " + std::string(name_of(fit.provenance)) + '\n';
    text += laws_of(fit.law) + residuals_text(fit.residuals);
  }
  return text;
}

std::string origin_text(const ProfileOrigin& origin) {
  std::string text = "origin:\n";
  const auto add = [&text](std::string_view key, const std::string& value) {
    if (!value.empty()) text += "  " + std::string(key) + ": " + quoted_text(value) + '\n';
  };
  const auto add_clock = [&text](std::string_view key, double megahertz) {
    if (megahertz > 0) text += "  " + std::string(key) + ": " + digits_of(megahertz) + " MHz\n";
  };
  const auto add_list = [&text](std::string_view key, const std::vector<std::string>& values) {
    if (values.empty()) return;
    text += "  " + std::string(key) + ":\n";
    for (const std::string& value : values) text += "    - " + quoted_text(value) + '\n';
  };
  add("date", origin.date);
  add("device", origin.device);
  add("driver", origin.driver);
  add_list("libraries", origin.libraries);
  add_clock("burst_clock", origin.burst_clock_mhz);
  add_clock("sustained_clock", origin.sustained_clock_mhz);
  add_list("sources", origin.sources);
  return text == "origin:\n" ? "" : text;
}

std::string machine_text(const std::optional<ProfiledMachine>& machine) {
  if (!machine) return "";
  return "machine:\n  multiprocessors: " + std::to_string(machine->multiprocessors) +
         "\n  memory: " + std::to_string(machine->memory.value()) +
         " B\n  l2: " + std::to_string(machine->l2_cache.value()) +
         " B\n  memory_bandwidth: " + digits_of(machine->bandwidth.value() / 1e9) +
         " GB/s\n  fp32: " + digits_of(machine->fp32_peak.value() / 1e9) + " GFLOP/s\n";
}

std::string fitted_text(const std::vector<SampleLines>& files) {
  if (files.empty()) return "";
  std::string text = "fitted:\n";
  for (const SampleLines& file : files) {
    text += "  - file: " + quoted_text(file.file) + '\n';
    std::vector<std::string> lines;
    for (const std::int64_t line : file.lines) lines.push_back(std::to_string(line));
    text += wrapped("    lines: ", lines, '[', ']');
  }
  return text;
}

}  // namespace

std::string write_profile(const GpuProfile& profile) {
  return "# How fast kernels run on " + profile.gpu +
         ": laws fitted to samples, written by `memest calibrate`. The laws and\n"
         "# their parameters: docs/calibration.md. Residuals are of the samples `tested`, or of "
         "those fitted.\n"
         "format_version: " +
         std::to_string(kProfileFormat) + "\ngpu: " + profile.gpu +
         "\nload: " + std::string(name_of(profile.load)) + '\n' + origin_text(profile.origin) +
         machine_text(profile.machine) + fits_text("matmuls", profile.matmuls) +
         fits_text("attentions", profile.attentions) + fits_text("streams", profile.streams) +
         fits_text("collectives", profile.collectives) + fits_text("transfers", profile.transfers) +
         fits_text("launches", profile.launches) + fitted_text(profile.fitted);
}

}  // namespace memest
