#include "memest/units/text.hpp"
#include "report/estimate/estimate_json.hpp"

namespace memest {
namespace {

Json json_of(const ForwardTime& pass) {
  return {{"seconds", pass.expected.value()},
          {"interval_seconds", {pass.low.value(), pass.high.value()}},
          {"kernel_seconds", pass.kernels.value()},
          {"host_seconds", pass.host.value()},
          {"launched_kernels", pass.launched},
          {"by", name_of(pass.bound)}};
}

}  // namespace

Json json_of(const InferenceTime& time) {
  Json json{{"call_seconds", time.whole.value()},
            {"interval_seconds", {time.low.value(), time.high.value()}},
            {"tokens_per_second", time.tokens_per_second},
            {"prefill", json_of(time.prefill)},
            {"provenance", text_of(time.origin)},
            {"rule", time.rule},
            {"host_source", time.host_source}};
  if (time.first_token) {
    json["first_token"] = json_of(*time.first_token);
    json["last_token"] = json_of(*time.last_token);
  } else {
    put_null(json, "first_token", "no pass runs behind the prompts'");
    put_null(json, "last_token", "no pass runs behind the prompts'");
  }
  return json;
}

}  // namespace memest
