"""The Python package: answers equal the program's, types hold, mistakes are exceptions. `python3 -m unittest` runs it."""

import json
import os
import pickle
import subprocess
import tempfile
import threading
import typing
import unittest
from pathlib import Path

import memest
from memest import results

SOURCE = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("MEMEST_PROGRAM", "memest")


def program(*words):
    run = subprocess.run([PROGRAM, *words, "--format", "json"], capture_output=True, text=True, check=False)
    return run.returncode, run.stdout


def records(kind, seen=None):
    """The record classes that an answer of `kind` may hold."""
    seen = set() if seen is None else seen
    if kind not in seen:
        seen.add(kind)
        for nested in results._nested(kind).values():
            records(nested, seen)
    return seen


class Answers(unittest.TestCase):
    maxDiff = None

    def test_are_those_of_the_program(self):
        for command, words, flags, answer in [
            ("estimate", ["gpt2"], ["--set", "training.micro_batch=4"], memest.estimate("gpt2", set={"training.micro_batch": 4})),
            ("estimate", ["llama-3-8b"], ["--gpus", "8"], memest.estimate("llama-3-8b", gpus=8)),
            ("plan", ["gpt2"], ["--gpu", "rtx-4090", "--gpus", "1"], memest.plan("gpt2", gpu="rtx-4090", gpus=1)),
            ("timeline", ["gpt2"], [], memest.timeline("gpt2")),
            ("check", ["gpt2"], [], memest.check("gpt2")),
        ]:
            with self.subTest(command=command, words=words):
                code, text = program(command, *words, *flags)
                self.assertEqual(json.loads(text), answer.to_dict())
                self.assertEqual(code, answer.exit_code)

    def test_of_a_mapping_are_those_of_its_file(self):
        spec = {"model": "gpt2", "training": {"seq_len": 512, "micro_batch": 2, "global_batch": 8}, "hardware": {"memory": "24 GiB"}}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "spec.json")
            path.write_text(json.dumps(spec))
            self.assertEqual(memest.estimate(path).memory, memest.estimate(spec).memory)

    def test_merge_specs_from_left_to_right(self):
        answer = memest.estimate("gpt2", {"training": {"seq_len": 256}}, {"training": {"seq_len": 512, "micro_batch": 2}})
        self.assertEqual((answer.spec.seq_len, answer.spec.micro_batch), (512, 2))

    def test_read_by_attribute_or_key(self):
        answer = memest.estimate("llama-3-8b", gpus=8)
        self.assertIsInstance(answer, memest.Estimate)
        self.assertEqual(answer.verdict, "does-not-fit")
        self.assertEqual(answer.exit_code, 1)
        self.assertEqual(answer.parameters.total, 8_030_261_248)
        rank = answer.memory.ranks[0]
        self.assertIsInstance(rank, results.Rank)
        self.assertIsInstance(rank.terms[0], results.Term)
        self.assertEqual(sum(term.bytes for term in rank.terms), rank.sum_of_terms_bytes)
        self.assertEqual(answer["time"]["by_class"][0]["class"], answer.time.by_class[0].class_)
        with self.assertRaisesRegex(AttributeError, "no 'verdit'; it has format_version, verdict"):
            answer.verdit
        self.assertEqual(pickle.loads(pickle.dumps(answer)).to_dict(), answer.to_dict())

    def test_say_why_a_value_is_missing(self):
        answer = memest.plan("gpt2", gpu="rtx-4090", gpus=1)
        self.assertIsNone(answer.front)
        self.assertIn("--front", answer.why("front"))
        self.assertIsNone(answer.why("best"))

    def test_of_any_command(self):
        answer = memest.ask("fit", "gpt2", memory="8GiB")
        self.assertEqual(answer.capacity_bytes, 8 << 30)

    def test_from_several_threads_are_alike(self):
        answers = [None] * 4

        def run(index):
            answers[index] = memest.estimate("gpt2").to_dict()

        threads = [threading.Thread(target=run, args=(i,)) for i in range(len(answers))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertTrue(all(answer == memest.estimate("gpt2").to_dict() for answer in answers))

    def test_write_the_files_that_are_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder, "page.html")
            memest.timeline("gpt2", html=str(page))
            self.assertIn("<html", page.read_text())


class Types(unittest.TestCase):
    """No type of the package is a guess: the keys of docs/answer.schema.json and those of its classes are the same."""

    SCHEMA = SOURCE / "docs" / "answer.schema.json"

    def test_cover_what_the_schema_requires(self):
        schema = json.loads(self.SCHEMA.read_text())["$defs"]
        kinds = {
            "EstimatedJob": memest.Estimate, "RankedPlans": memest.Plan, "StepTimeline": memest.Timeline, "check": memest.Check,
            "Memory": results.Memory, "Time": results.Time, "Cost": results.Cost, "Candidate": results.Candidate,
            "Published": results.Published, "Node": results.Node, "ForwardTime": results.ForwardTime,
            "InferenceTime": results.InferenceTime,
        }  # fmt: skip
        for name, kind in kinds.items():
            with self.subTest(definition=name):
                known = typing.get_type_hints(kind)
                self.assertEqual([], [key for key in schema[name]["required"] if key not in known])

    def test_name_no_key_that_no_answer_has(self):
        schema = self.SCHEMA.read_text()
        documents = schema + (SOURCE / "docs" / "json.md").read_text()
        for kind in records(memest.Estimate) | records(memest.Plan) | records(memest.Timeline) | records(memest.Check):
            for key in typing.get_type_hints(kind):
                with self.subTest(kind=kind.__name__, key=key):
                    self.assertTrue(key in documents or key in ("rule", "group", "largest", "host_source"))


class Mistakes(unittest.TestCase):
    maxDiff = None

    def test_come_all_at_once_with_place_and_hint(self):
        with self.assertRaises(memest.BadInput) as caught:
            memest.estimate({"model": {"layers": 2, "hiden_size": 4096, "heads": 32}, "hardware": {"memory": 80}})
        error = caught.exception
        self.assertEqual(error.exit_code, 2)
        self.assertIsInstance(error, ValueError)
        self.assertEqual(
            str(error),
            """<spec>.json:2:3: error: missing key 'vocab_size'
  2 |   "model": {
    |   ^~~~~~~
<spec>.json:4:5: error: unknown key 'hiden_size'
  4 |     "hiden_size": 4096,
    |     ^~~~~~~~~~~~
    = hint: did you mean 'hidden_size'?
<spec>.json:8:15: error: a size needs its unit
  8 |     "memory": 80
    |               ^~
    = hint: write 80 GiB or 80 GB""",
        )
        second = error.diagnostics[1]
        self.assertEqual((second.file, second.line, second.column, second.length), ("<spec>.json", 4, 5, 12))
        self.assertEqual((second.severity, second.message), ("error", "unknown key 'hiden_size'"))
        self.assertEqual(second.hint, "did you mean 'hidden_size'?")
        self.assertEqual(pickle.loads(pickle.dumps(error)).diagnostics, error.diagnostics)

    def test_of_a_flag_or_a_command_are_bad_input(self):
        with self.assertRaisesRegex(memest.BadInput, "did you mean '--gpus'"):
            memest.ask("estimate", "gpt2", gpuss=8)
        with self.assertRaisesRegex(memest.BadInput, "no command 'estimat'"):
            memest.ask("estimat", "gpt2")

    def test_of_the_environment_and_of_knowledge_have_their_own(self):
        with self.assertRaisesRegex(memest.EnvironmentFailed, "cannot open 'no/such.yaml'") as caught:
            memest.estimate("no/such.yaml")
        self.assertEqual(caught.exception.exit_code, 3)
        with self.assertRaises(memest.NotKnown) as caught:
            memest.timeline("bert-base")
        self.assertEqual(caught.exception.exit_code, 4)

    def test_of_one_file_leave_the_others_checked(self):
        answer = memest.check("gpt2", {"model": {"layers": 2}})
        self.assertEqual([file.status for file in answer.files], ["invalid", "within"])  # by name
        self.assertEqual(answer.exit_code, 2)
        self.assertEqual(answer.diagnostics[0].file, "<spec>.json")

    def test_standard_input_is_not_read(self):
        with self.assertRaisesRegex(ValueError, "standard input"):
            memest.estimate("-")


if __name__ == "__main__":
    unittest.main()
