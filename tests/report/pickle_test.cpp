// The pickles that memory snapshots are written as, byte by byte as CPython's pickletools reads
// protocol 2.
#include "report/timeline/pickle.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>

namespace memest {
namespace {

using namespace std::string_literals;

TEST_CASE("a pickle begins with its protocol and ends with a stop") {
  PickleWriter pickle;
  pickle.boolean(true);
  CHECK(pickle.finish() == "\x80\x02\x88.");
}

TEST_CASE("integers take the shortest code that holds them") {
  PickleWriter pickle;
  pickle.begin_list();
  for (const std::int64_t value : {0LL, 255LL, 256LL, 65535LL, 65536LL, -1LL, 2147483648LL}) {
    pickle.integer(value);
  }
  pickle.end_list();
  CHECK(pickle.finish() == "\x80\x02](K\x00K\xff"s + "M\x00\x01M\xff\xff"s +
                               "J\x00\x00\x01\x00J\xff\xff\xff\xff"s +
                               "\x8a\x08\x00\x00\x00\x80\x00\x00\x00\x00"s + "e.");
}

TEST_CASE("a text is written once and recalled after") {
  PickleWriter pickle;
  pickle.begin_dict();
  pickle.text("addr");
  pickle.text("addr");
  pickle.end_dict();
  CHECK(pickle.finish() == "\x80\x02}(X\x04\x00\x00\x00"s + "addrq\x00h\x00u."s);
}

TEST_CASE("numbers of remembered values grow beyond a byte") {
  PickleWriter pickle;
  std::uint32_t last = 0;
  for (int i = 0; i <= 256; ++i) {
    pickle.boolean(true);
    last = pickle.remember();
  }
  CHECK(last == 256);
  pickle.recall(last);
  const std::string bytes = pickle.finish();
  CHECK(bytes.ends_with("\x88r\x00\x01\x00\x00j\x00\x01\x00\x00."s));
}

TEST_CASE("reals are big-endian, pairs and parts follow their values") {
  PickleWriter pickle;
  pickle.begin_list();
  pickle.real(0.5);
  pickle.next_part();
  pickle.boolean(false);
  pickle.boolean(true);
  pickle.pair();
  pickle.end_list();
  CHECK(pickle.finish() ==
        "\x80\x02](G\x3f\xe0\x00\x00\x00\x00\x00\x00"s + "e(\x89\x88\x86"s + "e.");
}

}  // namespace
}  // namespace memest
