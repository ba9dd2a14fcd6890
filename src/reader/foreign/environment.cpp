#include "reader/foreign/environment.hpp"

#include <algorithm>
#include <string>

#include "reader/keys/keys.hpp"
#include "reader/text/scalar.hpp"

namespace memest {

void write_environment(ForeignImport& file) {
  const std::string_view key =
      file.written({"env.PYTORCH_CUDA_ALLOC_CONF", "env.PYTORCH_ALLOC_CONF"});
  std::string text = file.text(key);
  std::erase_if(text, [](char c) { return c == ' ' || c == '\'' || c == '"'; });
  // A list in brackets has commas of its own.
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t open = rest.find('[');
    const std::size_t from = open < rest.find(',') ? std::min(rest.find(']'), rest.size()) : 0;
    const std::size_t end = std::min(rest.find(',', from), rest.size());
    const std::string_view option = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::size_t colon = option.find(':');
    if (option.empty() || colon == std::string_view::npos) continue;
    const std::string_view name = option.substr(0, colon);
    if (std::ranges::find(allocator_keys(), name, &Key::name) == allocator_keys().end()) {
      file.pass_over(key, quote(name) + " is no option of the allocator that memest knows");
      continue;
    }
    const std::string value(option.substr(colon + 1));
    const std::string_view word = is_same_word(value, "true")    ? "true"
                                  : is_same_word(value, "false") ? "false"
                                                                 : std::string_view();
    const std::string own = value.starts_with("[") ? "\"" + value + "\"" : value;
    file.write("allocator." + std::string(name), word.empty() ? std::string_view(own) : word,
               {key});
  }
}

}  // namespace memest
