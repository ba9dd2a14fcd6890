// A command line, read: which command, which words, which flags.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/plan/objective.hpp"
#include "memest/spec/gpu/sample.hpp"
#include "memest/units/quantity.hpp"

namespace memest {

enum class Format : std::uint8_t { text, json, markdown, csv, html, github, junit, sarif, gitlab };

enum class DeviceKind : std::uint8_t { gpu, host };
/// "gpu", "host".
std::string_view name_of(DeviceKind kind);

enum class ColorWhen : std::uint8_t { automatic, always, never };
/// "auto", "always", "never".
std::string_view name_of(ColorWhen when);

struct Arguments {
  std::vector<std::string> words;                        ///< what is no flag: spec files, names
  std::vector<std::string> gpus;                         ///< --gpu NAME[,NAME]
  std::vector<std::int64_t> counts;                      ///< --gpus N[,N]
  std::vector<std::string> overrides;                    ///< --set KEY=VALUE
  std::vector<std::string> freed;                        ///< --free KEY
  std::vector<std::shared_ptr<const SourceText>> texts;  ///< specs in memory, which `words` name
  bool text_only = false;                                ///< --text-only: of a multimodal config
  std::vector<std::string> implementations;              ///< --implementation NAME[,NAME]
  Objective objective = Objective::money;                ///< --objective NAME
  std::optional<Growth> largest;                         ///< --largest NAME
  std::optional<double> tokens;                          ///< --tokens N
  std::optional<Seconds> within;                         ///< --within TIME
  std::optional<std::int64_t> threads;  ///< --threads N; as many as the machine has where left out
  bool front = false;                   ///< --front
  bool explain_choice = false;          ///< --explain-choice
  Format format = Format::text;
  std::string output;                     ///< --output FILE; empty: standard output
  std::string to;                         ///< --to NAME; empty: none
  std::string lines;                      ///< --lines FILE; empty: none
  std::string plot;                       ///< --plot FILE; empty: none
  std::string residuals;                  ///< --residuals FILE; empty: none
  std::int64_t rank = 0;                  ///< --rank N, of a pipeline
  std::optional<std::int64_t> data_rank;  ///< --data-rank N
  std::string against;                    ///< --against TRACE; empty: none
  std::string csv;                        ///< --csv FILE; empty: none
  std::string snapshot;                   ///< --snapshot FILE; empty: none
  std::string memory;                     ///< --memory SIZE; empty: the GPU's
  std::string conf;                       ///< --conf TEXT; empty: the trace's
  std::string host_memory;                ///< --host-memory SIZE; empty: the node's
  std::string actions;                    ///< --actions FILE; empty: none
  std::int64_t devices = 1;               ///< --gpus N of a program that is run
  std::int64_t world = 1;                 ///< --world N
  std::int64_t steps = 0;                 ///< --steps K; 0: until the program's end
  bool strict = false;                    ///< --strict
  bool masks_keep_all = false;            ///< --masks-keep-all
  std::vector<std::string> varied;        ///< --vary NAME=N,N,N; empty: one run
  std::vector<std::string> at;            ///< --at NAME=N, of a recording for many sizes
  std::string largest_size;               ///< --largest NAME of such a recording; empty: none
  std::string lock;                       ///< --lock FILE; empty: memest.lock, where there is one
  bool update = false;                    ///< --update
  std::string pack;                       ///< --pack FILE; empty: none
  bool reuse = false;                     ///< --reuse
  std::string html;                       ///< --html FILE; empty: none
  std::string trace;                      ///< --trace FILE; empty: none
  std::vector<std::string> from;          ///< --from FILE; empty: measure
  std::string gpu;                        ///< --gpu NAME of a profile; empty: the samples'
  Load load = Load::burst;                ///< --load burst|sustained
  DeviceKind device = DeviceKind::gpu;    ///< --device gpu|host: what is measured
  bool device_chosen = false;             ///< --device stands there
  bool quick = false;                     ///< --quick: a minute instead of ten
  std::optional<std::int64_t> seconds;    ///< --seconds N: that long
  bool all_rows = false;                  ///< --rows all: judge by every sample
  bool dry_run = false;                   ///< --dry-run: say what would be done
  bool force = false;                     ///< --force: an existing file may be replaced
  ColorWhen color = ColorWhen::automatic;
  bool quiet = false;
  bool verbose = false;  ///< --verbose
  bool help = false;
};

}  // namespace memest
