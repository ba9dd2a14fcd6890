#include <chrono>
#include <yaml-cpp/yaml.h>

// A comment may say exit(1), and so may "a text": no printf( here.
double answer() {
  const char* text = "exit(1)";
  std::printf("%s", text);
  try {
    if (getenv("MEMEST")) std::exit(1);
  } catch (...) {
  }
  return text[0];
}
