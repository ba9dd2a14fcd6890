// Texts of other programs as trees, and trees as keys of a spec with what became of the others.
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <set>
#include <string>

#include "memest/reader/import.hpp"
#include "memest/report/diagnostics.hpp"
#include "reader/foreign/arithmetic.hpp"
#include "reader/foreign/dialects.hpp"
#include "reader/foreign/foreign_import.hpp"
#include "reader/keys/check.hpp"
#include "reader/keys/keys.hpp"
#include "reader/text/merge.hpp"

namespace memest {
namespace {

SourcePointer source_of(std::string name, std::string text) {
  return std::make_shared<const SourceText>(SourceText{std::move(name), std::move(text)});
}

Value tree_of(std::string name, std::string text) {
  const Checked<Value> tree = parse_foreign(source_of(std::move(name), std::move(text)));
  INFO(render(tree.diagnostics(), {}));
  REQUIRE(tree.ok());
  return tree.value();
}

std::string at(const Value& root, std::string_view path) {
  const Value* value = find_path(root, path);
  if (value == nullptr) return "nothing";
  std::string text = value->text;
  for (const Value& item : value->items) text += (text.empty() ? "" : " ") + item.text;
  return text + " @" + std::to_string(value->span.line) + ":" + std::to_string(value->span.column);
}

TEST_CASE("a TOML file is a tree with the place of every value") {
  const Value root = tree_of("a.toml",
                             "[training]\nseq_len = 2_048\nname = 'ü' # text\n\n[a.b]\n"
                             "on = true\nlist = [\"x\", 'y']\n");
  CHECK(at(root, "training.seq_len") == "2048 @2:11");
  CHECK(at(root, "training.name") == "ü @3:8");
  CHECK(at(root, "a.b.on") == "true @6:6");
  CHECK(at(root, "a.b.list") == "x y @7:8");
  CHECK(root.members[0].key == "training");
}

TEST_CASE("a mistake in TOML is told at its place") {
  const Checked<Value> tree =
      parse_foreign(source_of("a.toml", "[training]\nseq_len = 1\nseq_len = 2\n"));
  REQUIRE_FALSE(tree.ok());
  CHECK(tree.diagnostics()[0].span.line == 3);
  CHECK_FALSE(parse_foreign(source_of("a.toml", "[a]\n = 1\n")).ok());
  CHECK_FALSE(parse_foreign(source_of("a.toml", "[a.]\n")).ok());
}

TEST_CASE("a Python file is a tree of the literals that it assigns") {
  const Value root = tree_of("a.py",
                             "import time\n\"\"\"\nn_layer = 1\n\"\"\"\nn_layer = 12 # comment\n"
                             "lr = 6e-4\nsteps = 5 * 8\nmore = steps // 2\nname = 'a # b'\n"
                             "flag = False\nnothing = None\nif x == 1:\n    n_head = 3\n"
                             "run = 'a' + str(1)\n");
  CHECK(at(root, "n_layer") == "12 @5:11");
  CHECK(at(root, "lr") == "6e-4 @6:6");
  CHECK(at(root, "steps") == "40 @7:9");
  CHECK(at(root, "more") == "20 @8:8");
  CHECK(at(root, "name") == "a # b @9:8");
  CHECK(at(root, "flag") == "false @10:8");
  CHECK(root.find("nothing")->kind == ValueKind::null);
  CHECK(at(root, "n_head") == "nothing");
  CHECK(at(root, "run") == "'a' + str(1) @14:7");
}

TEST_CASE("a shell script is the command line of its training program") {
  const Value root = tree_of(
      "a.sh",
      "#!/bin/bash\n"
      "#SBATCH --nodes=4\n"
      "export ALLOC=expandable_segments:True\n"
      "TP=2; PP=$((TP * 2))\n"
      "NAME=${1:-\"mock\"}\n"
      "ARGS=(\n  --num-layers 24 # many\n  --tp $TP\n)\n"
      "MORE=\"--pp ${PP} --bf16\"\n"
      "if [ \"$NAME\" = mock ]; then\n  MORE=\"$MORE --mock\"\n"
      "else\n  MORE=\"$MORE --real\"\nfi\n"
      "python prepare.py --x\n"
      "torchrun --nproc_per_node 8 --nnodes=$NODES pretrain_gpt.py \\\n"
      "  \"${ARGS[@]}\" $MORE --split 949,50,1 --rampup 16 -1 2 --name $NAME 2>&1 | tee log\n");
  CHECK(at(root, "--num-layers") == "24 @7:16");
  CHECK(at(root, "--tp") == "2 @4:4");
  CHECK(at(root, "--pp").starts_with("4 @4:"));
  CHECK(at(root, "--bf16").starts_with("true @10:"));
  CHECK(at(root, "--mock").starts_with("true"));
  CHECK(at(root, "--real") == "nothing");
  CHECK(at(root, "--x") == "nothing");
  CHECK(at(root, "--rampup").starts_with("16 -1 2 @"));
  CHECK(at(root, "--name").starts_with("mock @5:"));
  CHECK(at(root, "script").starts_with("pretrain_gpt.py"));
  CHECK(at(root, "launcher.--nproc_per_node").starts_with("8 "));
  CHECK(at(root, "launcher.--nnodes").starts_with("$NODES "));
  CHECK(at(root, "sbatch.--nodes").starts_with("4 @2:"));
  CHECK(at(root, "env.ALLOC").starts_with("expandable_segments:True @3:"));
}

TEST_CASE("a branch that no file decides is passed over, and told") {
  const Checked<Value> tree =
      parse_foreign(source_of("a.sh", "if [ -f x ]; then\n  A=1\nfi\npython train.py --a $A\n"));
  REQUIRE(tree.ok());
  REQUIRE(tree.diagnostics().size() == 1);
  CHECK(tree.diagnostics()[0].span.line == 1);
  CHECK(at(tree.value(), "--a").starts_with("$A "));
}

TEST_CASE("whole-number expressions have a value or none") {
  const ValueOfName names = [](std::string_view name) {
    return name == "A" ? std::optional<std::int64_t>(6) : std::nullopt;
  };
  CHECK(evaluate_whole("2 * (3 + $A) - 1", names) == 17);
  CHECK(evaluate_whole("7 / 2 % 2", names) == 1);
  CHECK(evaluate_whole("${A}//4", names) == 1);
  CHECK_FALSE(evaluate_whole("1 / 0", names));
  CHECK_FALSE(evaluate_whole("B + 1", names));
  CHECK_FALSE(evaluate_whole("9223372036854775807 + 1", names));
  CHECK_FALSE(evaluate_whole("1.5 * 2", names));
  CHECK_FALSE(evaluate_whole("(1", names));
}

/// Whether the key table has a path of keys; `*` of a choice is left to the reader.
bool has_path(std::span<const Key> keys, std::string_view path) {
  const std::size_t dot = path.find('.');
  for (const Key& key : keys) {
    if (key.name != path.substr(0, dot)) continue;
    if (dot == std::string_view::npos) return true;
    for (const KeyShape& shape : key.shapes) {
      if (has_path(shape.keys, path.substr(dot + 1))) return true;
    }
  }
  return false;
}

TEST_CASE("every row of a dialect becomes a key that a spec has, and no key has two rows") {
  for (const Dialect* dialect : dialects()) {
    std::set<std::string_view> keys;
    for (const std::span<const KeyRow> table : dialect->tables) {
      for (const KeyRow& row : table) {
        INFO(dialect->name << ": " << row.key);
        CHECK(keys.insert(row.key).second);
        CHECK((row.use == KeyUse::mapped) == !row.own.empty());
        if (!row.own.empty()) CHECK(has_path(spec_keys(), row.own));
        const bool tells = row.use == KeyUse::not_followed || row.use == KeyUse::no_effect ||
                           row.use == KeyUse::refused;
        CHECK(tells == !row.why.empty());
      }
    }
  }
}

TEST_CASE("what becomes of each key is told by name and line") {
  const Checked<Value> tree = parse_foreign(
      source_of("a.toml",
                "[model]\nflavor = \"8B\"\n[training]\nseq_len = 4096\nseqlen = 1\n"
                "[parallelism]\nenable_async_tensor_parallel = true\n[metrics]\nlog_freq = 1\n"));
  REQUIRE(tree.ok());
  const Dialect* dialect = find_dialect(Syntax::toml, tree.value());
  REQUIRE(dialect != nullptr);
  const Checked<ForeignSpec> spec = import_tree(*dialect, tree.value());
  REQUIRE(spec.ok());
  CHECK(render(spec.diagnostics(), {}) ==
        "a.toml:5:1: warning: 'training.seqlen' is no key of torchtitan's TOML that memest knows\n"
        "  5 | seqlen = 1\n"
        "    | ^~~~~~\n"
        "    = hint: it is passed over\n"
        "a.toml:7:1: warning: 'parallelism.enable_async_tensor_parallel' is not followed\n"
        "  7 | enable_async_tensor_parallel = true\n"
        "    | ^~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
        "    = hint: products and collectives of tensor ranks follow each other\n");
  std::string fates;
  for (const ImportedKey& key : spec.value().keys) {
    fates += std::to_string(key.span.line) + " " + std::string(name_of(key.fate)) + "\n";
  }
  CHECK(fates == "2 mapped\n4 mapped\n5 unknown\n7 not followed\n9 without effect\n");
}

TEST_CASE("a program's default gives way to any file that says otherwise") {
  ForeignSpec spec;
  spec.tree.kind = ValueKind::mapping;
  const Value root = tree_of("a.toml", "[model]\nflavor = \"8B\"\n");
  merge(spec, import_tree(torchtitan_dialect(), root).value());
  merge(spec.tree, tree_of("b.yaml", "training: {recompute: full, optimizer: sgd}"));
  fill_defaults(spec);
  CHECK(at(spec.tree, "training.recompute").starts_with("full "));
  CHECK(at(spec.tree, "training.optimizer").starts_with("sgd "));
  CHECK(at(spec.tree, "training.seq_len").starts_with("2048 "));
}

}  // namespace
}  // namespace memest
