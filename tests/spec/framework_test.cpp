#include "memest/spec/framework.hpp"

#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>

using namespace memest;

TEST_CASE("every framework has one row, which is its own") {
  std::set<std::string_view> names;
  for (const Framework framework : frameworks()) {
    const FrameworkRow& row = row_of(framework);
    INFO(row.name);
    CHECK(names.insert(row.name).second);
    CHECK(row.own.framework == framework);
    CHECK(framework_named(row.name) == framework);
    CHECK(row.recorded.package.empty() == row.recorded.release.empty());
    CHECK_FALSE(row.asks.empty());
  }
  CHECK_FALSE(framework_named("jax"));
}

TEST_CASE("a program's own loop trains the models of its framework") {
  for (const Framework framework : frameworks()) {
    const FrameworkRow& row = row_of(framework);
    INFO(row.name);
    const LoopRow& loop = row_of(row.own.loop);
    CHECK((!loop.trains || loop.trains == framework));
    if (row.own_program) CHECK(row_of(*row.own_program).trains == framework);
  }
}

TEST_CASE("one framework trains lists of layers, the others models") {
  for (const bool layer_list : {false, true}) {
    CHECK(row_of(default_framework(layer_list)).trains_layer_lists == layer_list);
  }
  CHECK(name_of(default_framework(false)) == "transformers");
}

TEST_CASE("what a row says hangs together") {
  for (const Framework framework : frameworks()) {
    const FrameworkRow& row = row_of(framework);
    INFO(row.name);
    const ModelSplits& splits = row.splits;
    // Schedules, stages and ends are those of a pipeline.
    if (!splits.pipeline) {
      CHECK(row.schedules == PipelineSchedules::none);
      CHECK(row.stages_of_rank == 1);
      CHECK(row.end_layers == 0);
      CHECK_FALSE(
          (splits.own_ends || splits.deals || splits.deals_by_cost || splits.ties_over_stages));
    }
    if (splits.context_in_te_alone) CHECK((splits.context && row.has_layer_specs));
    // A precision that it does not call by its own name stays what it is.
    for (const PrecisionName& precision : row.precisions) CHECK(precision.written != precision.own);
    // Its gradients are DistributedDataParallel's, or lie in a buffer of its own, or nowhere; or
    // all its ranks are FSDP2's.
    CHECK(static_cast<int>(row.ddp) + static_cast<int>(row.gradient_buffer) +
              static_cast<int>(row.is_formula) + static_cast<int>(shards_all_ranks(row)) ==
          1);
  }
}
