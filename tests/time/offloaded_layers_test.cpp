// Copies of layers beside the passes: what of them the computing stream waits for.
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include "time/host_step.hpp"

namespace memest {
namespace {

using Catch::Approx;

CopiedLayers copied(std::int64_t layers, std::int64_t offloaded, double leaving, double coming) {
  return {.layers = layers,
          .offloaded = offloaded,
          .of_layer = {1, 2},
          .leaving = leaving,
          .coming = coming};
}

}  // namespace

TEST_CASE("Copies that are shorter than a layer are hidden while another layer runs beside them") {
  const PassSeconds waits = waits_for_copies(copied(80, 40, 0.9, 1.9));
  CHECK(waits.forward == 0);
  CHECK(waits.backward == 0);
}

TEST_CASE("A pass is as long as the longer of its layers and of its copies with a layer beside") {
  // Copies of the forward run one behind another from its begin, and the last layer behind the last
  // of them: 40 · 3 + 1 s where 80 s compute.
  const PassSeconds waits = waits_for_copies(copied(80, 40, 3, 5));
  CHECK(80 + waits.forward == Approx(40 * 3 + 1));
  // Those of the backward begin behind the last layer's, and the first layer's is behind all.
  CHECK(160 + waits.backward == Approx(2 + 40 * 5 + 2));
}

TEST_CASE("Of all layers but the last each copy is waited for, as nothing runs beside it") {
  // Layer i goes as layer i + 1 begins, which Transformer Engine warns of.
  const PassSeconds waits = waits_for_copies(copied(10, 9, 1.5, 2));
  CHECK(waits.forward == Approx(9 * 0.5));
  CHECK(waits.backward == Approx(9 * 2));
}

TEST_CASE("No layer offloaded is no wait") {
  const PassSeconds waits = waits_for_copies(copied(10, 0, 5, 5));
  CHECK(waits.forward == 0);
  CHECK(waits.backward == 0);
}

}  // namespace memest
