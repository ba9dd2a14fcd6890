// Dispatchers of tokens: --moe-token-dispatcher-type and --moe-flex-dispatcher-backend.
#include <string>
#include <string_view>

#include "reader/foreign/megatron/arguments.hpp"
#include "reader/foreign/megatron/megatron.hpp"

namespace memest::megatron {
namespace {

constexpr std::string_view kDispatcherKey = "training.implementation.token_dispatcher";
constexpr std::string_view kByAllToAll = "tokens go by all-to-all";

}  // namespace

void write_dispatcher(ForeignImport& file) {
  const MegatronFile megatron(file);
  const std::string_view type = megatron.key("moe_token_dispatcher_type");
  const std::string_view backend = megatron.key("moe_flex_dispatcher_backend");
  const std::string_view deepep = megatron.key("moe_enable_deepep");
  const std::string asked = megatron.text("moe_token_dispatcher_type", "alltoall");
  if (asked != "flex") {
    // Megatron asks no backend of another --moe-token-dispatcher-type.
    for (const std::string_view idle : {backend, deepep}) file.drop(idle, "no flex dispatcher");
    if (asked == "alltoall") return file.drop(type, std::string(kByAllToAll));
    return file.pass_over(type, std::string(kByAllToAll));
  }
  const bool hybrid = megatron.text("moe_flex_dispatcher_backend", "deepep") == "hybridep" &&
                      !megatron.flag("moe_enable_deepep", false);
  if (!hybrid) {
    // TransformerConfig's moe_flex_dispatcher_backend is deepep where nobody says otherwise.
    for (const std::string_view key : {type, backend, deepep}) {
      file.pass_over(key,
                     "DeepEP's own kernels are not available yet: " + std::string(kByAllToAll));
    }
    return;
  }
  file.write(kDispatcherKey, "hybridep", {backend, type});
}

void add_dispatcher(TokenDispatcher dispatcher, Arguments& list) {
  const bool flexes = dispatcher == TokenDispatcher::hybridep;
  const std::string name(name_of(dispatcher));
  list.add("--moe-token-dispatcher-type", flexes ? "flex" : name);
  if (flexes) list.add("--moe-flex-dispatcher-backend", name);
}

}  // namespace memest::megatron
