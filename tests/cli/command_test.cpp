// The program as its users meet it: exit codes, streams, flags, pages. What the answers say is
// tested in report and, word for word, in tests/golden.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "memest/report/display.hpp"
#include "shell.hpp"

namespace memest {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

const std::string kFits =
    "configs/models/llama-3-8b.yaml --gpu h200 --gpus 8 --set parallelism.zero=3";
const std::string kTooLarge = "configs/models/llama-3-8b.yaml --gpu t4";

/// A folder that goes away with the test.
struct Scratch {
  Scratch()
      : path(std::filesystem::temp_directory_path() / ("memest-cli-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::filesystem::remove_all(path); }
  [[nodiscard]] std::string file(const char* name) const { return (path / name).string(); }

  std::filesystem::path path;
};

void check_lines_fit(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    CHECK(display_width(line) <= kTextColumns);
  }
}

/// The command at the end of a plan, as it would be pasted.
std::string explaining_command(const std::string& plan) {
  const std::string lead = "Why these numbers:\n";
  const std::size_t begin = plan.find(lead);
  REQUIRE(begin != std::string::npos);
  return plan.substr(begin + lead.size());
}

/// What the first rank of an estimate in JSON takes of its device.
std::string first_device_bytes(const std::string& json) {
  const std::string key = "\"device_bytes\": ";
  const std::size_t begin = json.find(key);
  REQUIRE(begin != std::string::npos);
  return json.substr(begin + key.size(), json.find(',', begin) - begin - key.size());
}

TEST_CASE(
    "what a plan chose is a spec that estimate answers alike, whatever it splits and shards") {
  struct Searched {
    const char* training;
    const char* flags;
    const char* holds;  ///< the command
  };
  const Scratch scratch;
  const std::string spec = scratch.file("searched.yaml");
  for (const auto& [training, flags, holds] :
       {Searched{"precision: mixed", "--gpu h100-sxm-80gb --gpus 8", "training.implementation="},
        Searched{"precision: mixed", "--gpu h100-sxm-80gb --gpus 8 --implementation megatron",
                 "training.implementation=megatron"},
        Searched{"precision: mixed, implementation: transformers", "--gpu h100-sxm-80gb --gpus 8",
                 "parallelism.zero="},
        Searched{"precision: amp-bf16, implementation: transformers",
                 "--gpu h100-sxm-80gb --gpus 16", "parallelism.fsdp="},
        Searched{"precision: mixed, implementation: transformers", "--gpu rtx-5090 --gpus 8",
                 "parallelism.offload="},
        Searched{"implementation: torchtitan", "--gpu h100-sxm-80gb --gpus 16", "fsdp: {version"},
        Searched{"precision: megatron, implementation: {name: megatron, layers: te}",
                 "--gpu h100-sxm-80gb --gpus 8", "parallelism.overlap_grad_reduce=true"},
        Searched{"precision: megatron, implementation: {name: megatron, layers: te}",
                 "--gpu a100-sxm-80gb --gpus 3", "parallelism.account_for_loss=true"}}) {
    std::ofstream(spec) << "model: llama-3-8b\ntraining: {seq_len: 4096, global_batch: 240, "
                        << training << "}\n";
    const Ran plan = run_shell("memest plan " + spec + " " + flags);
    INFO(training << " " << flags << "\n" << plan.out << plan.err);
    REQUIRE(plan.code == 0);
    const std::string command = explaining_command(plan.out);
    CHECK_THAT(command, ContainsSubstring(holds));
    const Ran explained = run_shell(command);
    INFO(explained.err);
    CHECK(explained.code == 0);
    CHECK(explained.err.empty());
    const std::string verb = "memest explain";
    std::string estimate = command;
    estimate.replace(estimate.find(verb), verb.size(), "memest estimate --format json");
    const Ran estimated = run_shell(estimate);
    CHECK(estimated.code == 0);  // it fits
    const Ran planned =
        run_shell("memest plan " + spec + " " + flags + " --format csv | sed -n 2p | cut -d, -f8");
    CHECK(first_device_bytes(estimated.out) + "\n" == planned.out);
  }
}

TEST_CASE("exit code 0 is yes, 1 a true no, 2 bad input, 3 the environment") {
  CHECK(run_shell("memest estimate " + kFits).code == 0);
  CHECK(run_shell("memest estimate " + kTooLarge).code == 1);
  CHECK(run_shell("memest plan configs/models/llama-3-8b.yaml --gpu h100 --gpus 8").code == 0);
  CHECK(run_shell("memest plan configs/models/llama-3-8b.yaml --gpu t4 --gpus 1").code == 1);
  CHECK(run_shell("memest estimate configs/models/llama-3-8b.yaml --set model.hiden_size=1").code ==
        2);
  CHECK(run_shell("memest estimate no/such/file.yaml").code == 3);
  const Ran lost = run_shell("memest init --output no/such/folder/file.yaml");
  CHECK(lost.code == 3);
  CHECK_THAT(lost.err, ContainsSubstring("cannot write 'no/such/folder/file.yaml': "));
  const Ran unknown = run_shell("memest estimate --gpu nope gpt2");
  CHECK(unknown.code == 2);
  CHECK_THAT(unknown.err, ContainsSubstring("--gpu:1:14: error: unknown GPU 'nope'"));
  CHECK(run_shell("memest init > /dev/full").code == 3);
}

TEST_CASE("exit code 4 is not known, in every command that is asked, and the first line says so") {
  const std::string sentence =
      "Not known: memory and time of this family are not available yet; parameter counts are\n";
  for (const char* command : {"estimate vit-base", "estimate t5-small --gpu h100",
                              "explain vit-base", "explain bert-base optimizer", "plan t5-small"}) {
    const Ran ran = run_shell(std::string("memest ") + command);
    INFO(command);
    CHECK(ran.code == 4);
    CHECK_THAT(ran.out, StartsWith(sentence));
  }
  for (const char* command : {"timeline vit-base", "roofline vit-base",
                              "plan gpt-j-6b --largest sequence --gpu h100 --gpus 1",
                              "estimate gpt2 --set training.implementation.compile=whole",
                              "check gpt2 --set training.implementation.compile=whole"}) {
    INFO(command);
    CHECK(run_shell(std::string("memest ") + command).code == 4);
  }
  CHECK(run_shell("memest estimate gpt2 --set training.implementation.compile=whole "
                  "--set training.oops=1")
            .code == 2);
}

TEST_CASE("a plan reads a spec over as many GPUs as it is asked for, as an estimate does") {
  const std::string alone =
      " llama-3.2-1b --gpu h100-sxm-80gb --set 'training={seq_len: 512, micro_batch: 1, "
      "recompute: full, implementation: {name: transformers, loop: sft}}'";
  for (const char* shared : {" --set training.precision=mixed --set parallelism.zero=2",
                             " --set training.precision=bf16-autocast --set 'parallelism={zero: 3, "
                             "fsdp: {version: 2}}'"}) {
    INFO(shared);
    const std::string job = alone + shared;
    CHECK(run_shell("memest estimate" + job + " --gpus 4").code == 0);
    CHECK(run_shell("memest plan" + job + " --gpus 4").code == 0);
    CHECK(run_shell("memest plan" + job + " --gpus 1,4").code == 0);
    CHECK(run_shell("memest plan" + job + " --gpus 1").code == 4);
  }
}

TEST_CASE("check says not known, never within, of what nobody can tell") {
  for (const char* gpu : {"", " --gpu h100", " --set budget.memory='70 GiB'"}) {
    const Ran ran = run_shell(std::string("memest check vit-base") + gpu);
    INFO(gpu);
    CHECK(ran.code == 4);
    CHECK_THAT(ran.out, StartsWith("1 spec: 1 not known.\n"));
    CHECK_THAT(ran.out, !ContainsSubstring("no budget"));
  }
  const Scratch scratch;
  const std::string over = scratch.file("over.yaml");
  run_shell("{ cat configs/models/gpt2.yaml; echo 'budget: {memory: 1 GiB}'; } > '" + over + "'");
  CHECK(run_shell("memest check '" + over + "' vit-base").code == 4);
  CHECK_THAT(run_shell("memest check vit-base --format json").out,
             ContainsSubstring("\"status\": \"not-known\""));
  CHECK_THAT(run_shell("memest check vit-base --format github").out,
             StartsWith("::error file=vit-base,title=not known::"));
  CHECK_THAT(run_shell("memest check vit-base --format junit").out,
             ContainsSubstring("tests=\"1\" failures=\"0\" errors=\"1\""));
}

TEST_CASE("an answer that is not known is written to --output as any other") {
  const Scratch scratch;
  const std::string file = scratch.file("answer.json");
  CHECK(run_shell("memest estimate vit-base --format json --output '" + file + "'").code == 4);
  CHECK_THAT(file_text(file), ContainsSubstring("\"verdict\": \"not-known\""));
}

TEST_CASE("an error is on standard error, an answer on standard output, never both mixed") {
  const Ran bad = run_shell("memest estimate configs/models/llama-3-8b.yaml --set training.oops=1");
  CHECK(bad.out.empty());
  CHECK_THAT(bad.err, ContainsSubstring("error: "));
  const Ran good = run_shell("memest estimate " + kFits);
  CHECK(good.err.empty());
  CHECK_THAT(good.out, StartsWith("llama-3-8b"));
}

TEST_CASE("wrong words are named with the nearest right one") {
  CHECK_THAT(run_shell("memest plna x").err, ContainsSubstring("did you mean 'plan'?"));
  CHECK_THAT(run_shell("memest gpus --fromat json").err,
             ContainsSubstring("did you mean '--format'?"));
  CHECK_THAT(run_shell("memest gpus --format jsn").err, ContainsSubstring("did you mean 'json'?"));
  CHECK_THAT(run_shell("memest gpus h100-sxm-80g").err,
             ContainsSubstring("did you mean 'h100-sxm-80gb'?"));
  CHECK_THAT(run_shell("memest explain " + kFits.substr(0, kFits.find(' ')) + " wieghts").err,
             ContainsSubstring("did you mean 'weights'?"));
  for (const char* command :
       {"memest", "memest plan", "memest gpus a b", "memest estimate x --gpus 0",
        "memest estimate llama-3-8b --gpu a,b", "memest completions tcsh", "memest man plna",
        "memest schema estimat", "memest plan x --gpus", "memest init --color pink"}) {
    INFO(command);
    CHECK(run_shell(command).code == 2);
  }
}

TEST_CASE("sizes that no number holds are bad input with a sentence") {
  const Ran ran = run_shell(
      "memest estimate configs/models/llama-3-8b.yaml --set training.seq_len=1000000000000");
  CHECK(ran.code == 2);
  CHECK_THAT(ran.err, StartsWith("--set:1:") || StartsWith("error: "));
}

/// Puts `help` into the page of the manual, where the page's own block of it stands.
void write_help(const std::string& page, const std::string& name, const std::string& help) {
  std::string text = file_text(page);
  const std::string mark = "$ memest " + name + " --help\n";
  const std::size_t begin = text.find(mark);
  REQUIRE(begin != std::string::npos);
  const std::size_t after = begin + mark.size();
  text.replace(after, text.find("```", after) - after, help);
  std::ofstream(page, std::ios::binary) << text;
}

// After a change of commands or flags: MEMEST_UPDATE_GOLDEN=1 ctest -R '^cli$' writes the blocks
// anew.
TEST_CASE("every help page fits, and its example works") {
  const std::string name = GENERATE(from_range(command_names()));
  const Ran help = run_shell("memest " + name + " --help");
  CHECK(help.code == 0);
  CHECK(run_shell("memest help " + name).out == help.out);
  check_lines_fit(help.out);
  const std::string page = MEMEST_SOURCE_DIR "/docs/commands/" + name + ".md";
  if (std::getenv("MEMEST_UPDATE_GOLDEN") != nullptr) write_help(page, name, help.out);
  CHECK_THAT(file_text(page), ContainsSubstring(help.out));
  const std::string mark = "Example:\n  ";
  const std::size_t begin = help.out.find(mark);
  REQUIRE(begin != std::string::npos);
  std::string example = help.out.substr(begin + mark.size());
  example = example.substr(0, example.find('\n'));
  CHECK_THAT(example, ContainsSubstring("memest " + name));
  if (name == "record") return;  // runs a program of the reader's
  const std::size_t output = example.find(" --output");
  const Ran ran = run_shell(example.substr(0, output));
  INFO(example);
  INFO(ran.err);
  CHECK(ran.code <= 1);
}

TEST_CASE("every flag that is listed is one that the parser knows") {
  const nlohmann::json help = nlohmann::json::parse(run_shell("memest --help --format json").out);
  CHECK(help["commands"].size() == command_names().size());
  for (const nlohmann::json& command : help["commands"]) {
    for (const nlohmann::json& flag : command["flags"]) {
      const std::string value = flag.contains("words") ? flag["words"][0] : "1";
      const std::string line = "memest " + command["name"].get<std::string>() + " " +
                               flag["name"].get<std::string>() +
                               (flag["value"] == "" ? "" : " " + value) + " --help";
      INFO(line);
      CHECK_THAT(run_shell(line).err, !ContainsSubstring("has no flag"));
      // A line of help that lists words lists all of them.
      const std::string help_line =
          flag["value"].get<std::string>() + " " + flag["help"].get<std::string>();
      if (flag["help"] == "" || !flag.contains("words")) continue;
      for (const std::string word : flag["words"]) CHECK_THAT(help_line, ContainsSubstring(word));
    }
  }
}

TEST_CASE("the overview lists every command and fits") {
  const Ran ran = run_shell("memest --help");
  CHECK(ran.code == 0);
  check_lines_fit(ran.out);
  CHECK_THAT(ran.out, ContainsSubstring("memest plan llama-3-8b --gpus 8"));
}

TEST_CASE("text fits 100 columns in every command") {
  const std::string command = GENERATE(
      "plan llama-3-8b", "plan t5-small", "estimate llama-3-70b --gpus 8", "explain gpt2",
      "estimate vit-base", "check llama-3-8b gpt2", "timeline gpt2 --set training.global_batch=2",
      "validate tests/truth/transformers.records.jsonl.gz", "gpus", "gpus h100", "models",
      "recipes", "optimizers");
  const Ran ran = run_shell("memest " + command);
  INFO(command << '\n' << ran.err);
  CHECK(ran.code <= 4);
  check_lines_fit(ran.out);
  check_lines_fit(ran.err);
}

TEST_CASE("without UTF-8 every byte is ASCII, and no sign is lost") {
  for (const char* locale :
       {"LC_ALL=C", "LC_ALL= LC_CTYPE=POSIX LANG=de_DE.UTF-8", "LC_ALL= LANG="}) {
    const Ran ran = run_shell("export " + std::string(locale) +
                              "; memest plan llama-3-8b; memest explain llama-3-8b; "
                              "memest timeline tests/golden/timeline.yaml");
    CHECK(ran.out == to_ascii(ran.out));
    CHECK_THAT(ran.out, !ContainsSubstring("?"));
    check_lines_fit(ran.out);
  }
  CHECK_THAT(run_shell("export LC_ALL= LANG=de_DE.utf8; memest explain llama-3-8b").out,
             ContainsSubstring("Φ"));
}

TEST_CASE("colour is for terminals without NO_COLOR, and for who asks for it") {
  const auto colored = [](const std::string& command) {
    return run_shell(command).out.find('\x1b') != std::string::npos;
  };
  CHECK_FALSE(colored("memest estimate " + kFits));
  CHECK(colored("memest estimate --color always " + kFits));
  CHECK(colored("NO_COLOR=1 memest estimate --color always " + kFits));
  const bool has_terminals = run_shell("script -qec true /dev/null").code == 0;
  if (!has_terminals) SKIP("this test needs script(1) and pseudo-terminals");
  const std::string terminal =
      "TERM=xterm script -qec '" MEMEST_BINARY " estimate " + kFits + "' /dev/null";
  CHECK(colored(terminal));
  CHECK_FALSE(colored("export NO_COLOR=1; " + terminal));
}

TEST_CASE("a reader that goes away is no error") {
  const Ran ran = run_shell("{ memest gpus --format json; echo \"code $?\" >&2; } | head -c 1");
  CHECK(ran.out == "{");
  CHECK(ran.err == "code 0\n");
}

TEST_CASE("--quiet answers by the exit code alone") {
  const Ran fits = run_shell("memest estimate --quiet " + kFits);
  CHECK(fits.code == 0);
  CHECK(fits.out.empty());
  const Ran too_large = run_shell("memest estimate --quiet " + kTooLarge);
  CHECK(too_large.code == 1);
  CHECK(too_large.out.empty());
  CHECK_FALSE(run_shell("memest estimate --quiet x.yaml").err.empty());
}

TEST_CASE("--output writes the whole answer or leaves the old file, and nothing beside it") {
  const Scratch scratch;
  const std::string file = scratch.file("answer.json");
  const Ran good = run_shell("memest estimate --format json --output '" + file + "' " + kFits);
  CHECK(good.code == 0);
  CHECK(good.out.empty());
  const std::string answer = file_text(file);
  CHECK(answer == run_shell("memest estimate --format json " + kFits).out);

  CHECK(run_shell("memest estimate --output '" + file + "' --set training.oops=1 " + kFits).code ==
        2);
  CHECK(file_text(file) == answer);
  const Ran full =
      run_shell("ulimit -f 0; trap '' XFSZ; memest gpus --format json --output '" + file + "'");
  CHECK(full.code == 3);
  CHECK(file_text(file) == answer);
  const auto files = std::filesystem::directory_iterator(scratch.path);
  CHECK(std::distance(begin(files), end(files)) == 1);
}

TEST_CASE("an export of several files goes into a folder, and over none that is read") {
  const Scratch scratch;
  const std::string folder = scratch.file("new/job");
  const std::string job =
      "memest export llama-3.2-1b --to accelerate --gpus 8 --set training.precision=amp-bf16 "
      "--set training.implementation.loop=trainer";
  const Ran several = run_shell(job);
  CHECK(several.code == 2);
  CHECK(several.err ==
        "error: these are 3 files\n    = hint: --output FOLDER says where they go\n");
  const Ran written = run_shell(job + " --output '" + folder + "'");
  CHECK(written.code == 0);
  CHECK(written.out == folder + "/accelerate.yaml\n" + folder + "/training_arguments.json\n" +
                           folder + "/model.json\n");
  CHECK_THAT(file_text(folder + "/accelerate.yaml"), ContainsSubstring("\"MULTI_GPU\""));

  const std::string toml = scratch.file("train.toml");
  const std::string again = "memest export '" + toml + "' --to torchtitan --gpus 8 --output ";
  run_shell("cp tests/import/files/torchtitan/llama3_8b.toml '" + toml + "'");
  const Ran over = run_shell(again + "'" + scratch.path.string() + "'");
  CHECK(over.code == 2);
  CHECK(over.err == "error: --output would overwrite '" + toml +
                        "', which this command reads\n    = hint: choose another file\n");
  const std::string other = scratch.file("other.toml");
  CHECK(run_shell(again + "'" + other + "'").code == 0);
  CHECK(run_shell("memest estimate '" + other + "'").out.find("64 accumulation") ==
        std::string::npos);
}

TEST_CASE("--output through a link writes where the link points") {
  const Scratch scratch;
  const std::string target = scratch.file("target");
  const std::string link = scratch.file("link");
  run_shell("echo old > '" + target + "' && ln -s '" + target + "' '" + link +
            "' && memest init --force --output '" + link + "'");
  CHECK(std::filesystem::is_symlink(link));
  CHECK(file_text(target) == run_shell("memest init").out);
}

TEST_CASE("check answers for several files, by its code and in the formats of CI") {
  const Scratch scratch;
  const std::string over = scratch.file("over.yaml");
  run_shell("{ cat configs/models/gpt2.yaml; echo 'budget: {memory: 1 GiB}'; } > '" + over + "'");
  const std::string within = scratch.file("within.yaml");
  run_shell("{ cat configs/models/gpt2.yaml; echo 'budget: {memory: 1 TiB}'; } > '" + within + "'");
  CHECK(run_shell("memest check '" + within + "'").code == 0);
  const Ran both = run_shell("memest check '" + within + "' '" + over + "'");
  CHECK(both.code == 1);
  CHECK_THAT(both.out, ContainsSubstring("over budget"));
  CHECK_THAT(both.out, ContainsSubstring("within budget"));
  const Ran github = run_shell("memest check --format github '" + within + "' '" + over + "'");
  CHECK_THAT(github.out,
             StartsWith("::error file=" + over + ",line=21,col=10,title=over budget::memory: "));
  const Ran junit = run_shell("memest check --format junit '" + within + "' '" + over + "'");
  CHECK_THAT(junit.out, ContainsSubstring("tests=\"2\" failures=\"1\" errors=\"0\""));
  CHECK_THAT(run_shell("memest check configs/models/gpt2.yaml").out,
             ContainsSubstring("no budget"));
  CHECK(run_shell("memest check '" + over + "' --set training.oops=1").code == 2);
}

TEST_CASE("validate says no where a line breaks, points at it, and writes its plot") {
  const Scratch scratch;
  const std::string records = "tests/truth/nanogpt.records.jsonl.gz";
  const std::string lines = scratch.file("lines.yaml");
  run_shell("echo 'lines: [{metric: parameters, equal: true}]' > '" + lines + "'");
  const std::string plot = scratch.file("plot.svg");
  CHECK(run_shell("memest validate " + records + " --lines '" + lines + "' --plot '" + plot + "'")
            .code == 0);
  CHECK_THAT(file_text(plot), StartsWith("<svg "));
  run_shell("echo 'lines: [{metric: parameters, equal: true, least_rows: 1000}]' > '" + lines +
            "'");
  const Ran ran = run_shell("memest validate " + records + " --lines '" + lines + "'");
  CHECK(ran.code == 1);
  CHECK_THAT(ran.out, ContainsSubstring("Lines broken: 1."));
  CHECK_THAT(ran.err, ContainsSubstring("lines.yaml:1:18: error: 23 rows of parameters"));
  CHECK(run_shell("memest validate " + records + " --lines no-such-lines.yaml").code == 3);
  CHECK(run_shell("memest validate configs/models/gpt2.yaml").code == 2);
}

TEST_CASE("what import writes is a spec of the same model") {
  const Scratch scratch;
  const std::string config = scratch.file("config.json");
  run_shell("echo '{\"model_type\": \"gpt2\"}' > '" + config + "'");
  const std::string spec = scratch.file("model.yaml");
  CHECK(run_shell("memest import '" + config + "' --output '" + spec + "'").code == 0);
  const Ran ran = run_shell("memest estimate '" + spec + "'");
  CHECK(ran.code <= 1);
  CHECK_THAT(ran.out, ContainsSubstring("124,439,808 parameters"));
  CHECK(run_shell("memest import no-such-config.json").code == 3);
}

TEST_CASE("what import writes of a multimodal config is its text model, on request alone") {
  const Scratch scratch;
  const std::string config = scratch.file("config.json");
  run_shell(
      "echo '{\"model_type\": \"internvl\", \"text_config\": {\"model_type\": \"qwen2\"}, "
      "\"vision_config\": {\"hidden_size\": 1024}}' > '" +
      config + "'");
  const Ran refused = run_shell("memest import '" + config + "'");
  CHECK(refused.code == 4);
  CHECK(refused.out.empty());
  CHECK_THAT(refused.err, ContainsSubstring("the multimodal 'internvl' with its 'vision_config'"));
  const std::string spec = scratch.file("model.yaml");
  CHECK(run_shell("memest import --text-only '" + config + "' --output '" + spec + "'").code == 0);
  CHECK_THAT(file_text(spec), ContainsSubstring("\n  text_only: true\n"));
  const Ran ran = run_shell("memest estimate '" + spec + "'");
  CHECK(ran.err.empty());
  CHECK_THAT(ran.out, ContainsSubstring("Memory of one GPU"));
  const std::string named = scratch.file("named.yaml");
  run_shell("echo 'model: {hf: config.json}\ntraining: {seq_len: 128, global_batch: 1}' > '" +
            named + "'");
  CHECK(run_shell("memest estimate '" + named + "'").code == 4);
  CHECK(run_shell("memest estimate '" + named + "' --text-only").code <= 1);
}

TEST_CASE("what init writes is a spec, and schema is one JSON text") {
  const Scratch scratch;
  const std::string file = scratch.file("model.yaml");
  CHECK(run_shell("memest init --output '" + file + "'").code == 0);
  CHECK(run_shell("memest estimate '" + file + "'").code <= 1);
  CHECK_THAT(run_shell("memest schema").out, StartsWith("{"));
}

}  // namespace
}  // namespace memest
