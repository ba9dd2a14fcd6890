// The rows of change_words.cpp, for the rows of frameworks and loops.
#pragma once

#include "memest/spec/change_words.hpp"

namespace memest {

extern const ChangeWords kWordsOfTransformers;
extern const ChangeWords kWordsOfTrainer;
extern const ChangeWords kWordsOfTorchtitan;
extern const ChangeWords kWordsOfMegatron;
extern const ChangeWords kWordsOfNanoGpt;
extern const ChangeWords kWordsOfPlain;

}  // namespace memest
