/* A command line and its answer, for programs in other languages: what the Python package opens. The text of an answer is
 * that of `--format json`, docs/json.md, and its diagnostics are a JSON list. An answer is the caller's until it is freed.
 * Questions may be asked by several threads at once. */
#ifndef MEMEST_LIBRARY_H
#define MEMEST_LIBRARY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A spec in memory, which a word of the command line calls by this name: JSON where it ends in ".json", else YAML. */
struct memest_text {
  const char* name;
  const char* text;
};

struct memest_question {
  const char* const* words; /* behind "memest": {"estimate", "llama-3-8b", "--gpus", "8"} */
  size_t word_count;
  const struct memest_text* texts;
  size_t text_count;
};

struct memest_answer {
  int exit_code;           /* as the program's: 0 yes, 1 no, 2 bad input, 3 environment, 4 not known, 70 a bug */
  const char* text;        /* empty where there is no answer */
  const char* diagnostics; /* errors and warnings */
};

/* Files that the flags name are written before it returns. Null where even the error found no memory. */
const struct memest_answer* memest_ask(const struct memest_question* question);
void memest_free(const struct memest_answer* answer);

const char* memest_version(void);

#ifdef __cplusplus
}
#endif

#endif
