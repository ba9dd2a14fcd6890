"""Programs of PyTorch under `memest record`: what it tells is what they say of themselves.

PyTorch is installed once, below the folder for caches, without NVIDIA's libraries, which the null device stands in for. Where it
cannot be had the test is skipped (exit code 77).
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
MEMEST = os.path.abspath(sys.argv[1])
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "memest" / "torch-2.11.0"
WITHOUT_DEPENDENCIES = ["torch==2.11.0", "accelerate==1.15.0", "peft==0.21.2"]
PACKAGES = ["transformers==5.17.0", "filelock", "typing-extensions", "sympy", "networkx", "jinja2", "fsspec", "numpy", "psutil"]
SKIPPED = 77

# Programs of scripts/ that run to their end, whose recordings the model of the allocator plays as PyTorch did.
SCRIPTS = [
    ("nanogpt.py", []),
    ("checkpointing.py", []),
    ("optimizers.py", []),
    ("grad_scaler.py", []),
    ("cudnn_benchmark.py", []),
    ("leaves_at_once.py", []),
    ("leak.py", []),
    ("captured.py", []),
    ("workers.py spawn", []),
    ("data_parallel.py", ["--gpus", "2"]),
    ("ddp.py", ["--world", "4"]),
    ("fsdp.py 1", ["--world", "8", "--rank", "5"]),
    ("fsdp.py 2", ["--world", "8"]),
    ("tensor_parallel.py", ["--world", "8"]),
    ("pipeline_parallel.py", ["--world", "4", "--rank", "1"]),
]


def install():
    """The Python with PyTorch, or why there is none."""
    python = CACHE / "bin" / "python"
    done = CACHE / "installed"
    if done.exists():
        return str(python), None
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", "--clear", str(CACHE)], [*pip, "--no-deps", *WITHOUT_DEPENDENCIES],
                    [*pip, *PACKAGES]):
        ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode != 0:
            return None, f"{' '.join(command[:4])} ...: {ran.stderr.strip().splitlines()[-1:]}"
    done.touch()
    return str(python), None


def run(flags, command, **options):
    return subprocess.run([MEMEST, "record", *flags, "--", *command], capture_output=True, text=True, cwd=HERE, **options)


def record(flags, script, *arguments, code=0):
    ran = run(["--format", "json", *flags], [PYTHON, script, *arguments])
    if ran.returncode != code:
        raise AssertionError(f"exit code {ran.returncode}, not {code}: {ran.stderr[-2000:]}")
    return json.loads(ran.stdout), ran.stderr


class Programs(unittest.TestCase):
    def test_a_training_is_told_as_pytorch_tells_it(self):
        with tempfile.TemporaryDirectory() as folder:
            recording = os.path.join(folder, "run.memrec")
            answer, _ = record(["-o", recording], "train.py")
            process = answer["processes"][0]
            marks = {mark["name"]: mark["allocated_bytes"] for mark in process["phases"]}
            # AdamW's two moments of 525,568 parameters in fp32; backward() holds the gradient of the loss until it returns.
            self.assertEqual(marks["step1.optimizer"] - marks["step1.backward"], 2 * 4 * 525568 - 512)
            self.assertEqual(marks["step2.optimizer"], marks["step1.optimizer"])
            self.assertEqual(process["peak_phase"], "step2.backward")
            self.assertIn("train.py:7", process["peak_places"][0]["place"])
            self.assertEqual([(read["place"], read["count"]) for read in process["reads"]], [("train.py:11 <module>", 2)])
            replayed = subprocess.run([MEMEST, "replay", recording], capture_output=True, text=True)
            self.assertEqual(replayed.returncode, 0, replayed.stdout)

    def test_programs_run_and_replay(self):
        for script, flags in SCRIPTS:
            with self.subTest(script), tempfile.TemporaryDirectory() as folder:
                name, *words = script.split()
                answer, _ = record([*flags, "-o", os.path.join(folder, "run.memrec")], f"scripts/{name}", *words)
                self.assertTrue(answer["processes"])
                files = [process["file"] for process in answer["processes"]]
                replayed = subprocess.run([MEMEST, "replay", *files], capture_output=True, text=True)
                self.assertEqual(replayed.returncode, 0, replayed.stdout)

    def test_a_step_has_the_flops_that_pytorch_counts(self):
        answer, printed = record([], "scripts/flops.py")
        counted = int(printed.split("flops ")[1].split()[0])
        time = answer["processes"][0]["time"]
        self.assertEqual((time["of"], time["flops"]), ("step2", counted))
        self.assertEqual(time["unknown"], [])
        self.assertEqual(sum(row["flops"] for row in time["operators"]), counted)
        phases = {row["name"]: row for row in time["phases"]}
        self.assertEqual(list(phases), ["forward", "backward", "optimizer"])
        self.assertEqual(sum(row["flops"] for row in time["phases"]), counted)
        self.assertEqual(phases["optimizer"]["flops"], 0)
        rows = {row["name"]: row for row in time["operators"]}
        # Weights, gradients and two moments in bf16 are read, all but the gradients written; the count of steps of nine tensors is read.
        parameters = (3 * 64 + 1) * 128 + (128 * 9 + 1) * 128 + 129 * 384 + 128 * 512 + 513 * 128
        self.assertEqual(rows["aten::_fused_adamw_"]["bytes"], 7 * 2 * parameters + 9 * 4)
        self.assertLess(time["step_seconds_low"], time["step_seconds"])
        self.assertLess(time["step_seconds"], time["step_seconds_high"])

    def test_a_module_has_what_it_keeps_and_the_time_of_its_kernels(self):
        """A Linear keeps its input: of the three modules of train.py each one's output is what the next keeps."""
        answer, _ = record([], "train.py")
        process = answer["processes"][0]
        kept = process["kept_for_backward"]
        self.assertEqual(kept["phase"], "step2.forward")
        rows = {row["module"]: row["bytes"] for row in kept["modules"]}
        activations = 4 * 512 * 1024
        # Outside: the batch, and scalars of the loss, a block each.
        self.assertEqual(rows, {"0": activations, "1": activations, "2": 4 * 512 * 256, "": 4 * 512 * 256 + 2 * 512})
        self.assertEqual(kept["bytes"], sum(rows.values()))
        # The gradients of step 1, its batch and its loss go meanwhile.
        marks = {mark["name"]: mark["allocated_bytes"] for mark in process["phases"]}
        gone = 4 * 525568 + 4 * 512 * 256 + 512
        self.assertEqual(marks["step2.forward"] - marks["step1.optimizer"], kept["bytes"] - gone)
        modules = {row["module"]: row for row in process["time"]["modules"]}
        product = 2 * 512 * 256 * 1024
        self.assertEqual({name: (row["forward"]["flops"], row["backward"]["flops"]) for name, row in modules.items()},
                         {"0": (product, product), "1": (0, 0), "2": (product, 2 * product)})

    def test_a_mask_keeps_nothing_or_all(self):
        answer, printed = record([], "scripts/masks.py")
        self.assertIn("kept 64 0 0\nkept 300000 0 0\non the host 0\n", printed)
        self.assertFalse(answer["masks_keep_all"])
        answer, printed = record(["--masks-keep-all"], "scripts/masks.py")
        self.assertIn("kept 64 64 64\nkept 300000 300000 300000\non the host 64\n", printed)
        self.assertTrue(answer["masks_keep_all"])
        self.assertTrue(all(read["place"].startswith("scripts/masks.py") for read in answer["processes"][0]["reads"]))

    def test_messages_between_ranks_are_told(self):
        answer, _ = record(["--world", "8"], "scripts/fsdp.py", "2")
        rows = {row["name"]: row for row in answer["processes"][0]["time"]["operators"]}
        self.assertIn("all_gather", rows)
        self.assertIn("reduce_scatter", rows)

    def test_a_profiler_and_a_trace_of_the_program_go_first(self):
        record([], "scripts/profiled.py")
        answer, _ = record([], "scripts/traced.py")
        self.assertNotIn("time", answer["processes"][0])

    def test_a_step_of_two_optimizers_is_told_together(self):
        answer, _ = record([], "scripts/two_optimizers.py")
        time = answer["processes"][0]["time"]
        rows = {row["name"]: row for row in time["operators"]}
        self.assertEqual((time["of"], time["unknown"]), ("step2", []))
        # Forwards, gradients of both weights and of what is between them.
        self.assertEqual(rows["aten::mm"]["flops"], 5 * 2 * 32 * 256 * 256)
        self.assertIn("aten::_foreach_add_", rows)
        self.assertIn("aten::_fused_adamw_", rows)

    def test_sizes_become_formulas_and_a_point_that_is_held_out_is_hit(self):
        with tempfile.TemporaryDirectory() as folder:
            family = os.path.join(folder, "run.memrec")
            varied = ["--steps", "2", "--vary", "batch=4,5,8", "--vary", "seq=1280,1920,2560", "-o", family]
            answer, _ = record(varied, "scripts/varied.py", "nanogpt", "{batch}", "{seq}")
            held_out = answer["families"][0]["held_out"]
            self.assertEqual(held_out["at"], {"batch": 5, "seq": 1920})
            self.assertEqual(held_out["equal_requests"], answer["families"][0]["requests"])
            # A point outside of them, recorded: the formulas give it too.
            point, _ = record(["--steps", "2"], "scripts/varied.py", "nanogpt", "9", "2560")
            played = subprocess.run([MEMEST, "replay", family, "--at", "batch=9", "--at", "seq=2560", "--format", "json"],
                                    capture_output=True, text=True)
            played = json.loads(played.stdout)["played"][0]
            self.assertTrue(played["extrapolated"])
            for key in ("allocated_peak_bytes", "reserved_peak_bytes"):
                self.assertEqual(played[key], point["processes"][0][key])

    def test_runs_that_part_are_refused_with_the_line(self):
        ran = run(["--vary", "batch=2,3,5", "--vary", "seq=256,384,512"], [PYTHON, "scripts/varied.py", "parting", "{batch}", "{seq}"])
        self.assertEqual(ran.returncode, 4)
        self.assertIn("the runs part in the forward of step 1", ran.stderr)

    def test_a_graph_is_captured(self):
        answer, _ = record([], "scripts/cuda_graph.py")
        self.assertTrue(answer["processes"][0]["phases"])

    def test_what_nobody_knows_is_named(self):
        ran = run(["--format", "json"], [PYTHON, "scripts/linear_algebra.py", "svd"])
        self.assertEqual(ran.returncode, 3)
        self.assertTrue(any("gesvd" in name for name in json.loads(ran.stdout)["unanswered"]), ran.stdout[-500:])

    def test_steps_end_a_program(self):
        answer, _ = record(["--steps", "1"], "train.py")
        self.assertTrue(answer["processes"][0]["stopped"])
        self.assertEqual([mark["name"] for mark in answer["processes"][0]["phases"]][-1], "step1.optimizer")

    def test_what_runs_out_is_named_with_its_line(self):
        answer, _ = record(["--memory", "1.5GiB"], "grows.py", code=1)
        failure = answer["processes"][0]["out_of_memory"]
        self.assertEqual((failure["place"], failure["phase"]), ("grows.py:8 <module>", "step2.unfinished"))

    def test_a_value_that_is_read_ends_a_strict_program(self):
        ran = run(["--strict"], [PYTHON, "train.py"])
        self.assertEqual(ran.returncode, 3)
        self.assertIn("a value is read back from the device, which --strict forbids", ran.stderr)

    def test_one_process_stands_for_a_rank_of_many(self):
        answer, _ = record(["--world", "8", "--rank", "3"], "sharded.py")
        process = answer["processes"][0]
        self.assertEqual(process["rank"], "3 of 8")
        told = {int(read["bytes"]) for read in process["reads"]}
        self.assertTrue(told)

    def test_an_object_that_another_rank_sends_is_refused_in_a_sentence(self):
        record(["--world", "4", "--rank", "2"], "scripts/broadcast.py")
        record(["--world", "4"], "scripts/broadcast.py", "alone")
        _, told = record(["--world", "4", "--rank", "2"], "scripts/broadcast.py", "alone", code=3)
        self.assertIn("the program receives an object that another rank sends, and this process is the only one", told)

    def test_processes_of_torchrun_are_parts_of_one_answer(self):
        torchrun = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", "29517"]
        ran = run(["--format", "json", "--steps", "1"], [PYTHON, *torchrun, "sharded.py"])
        answer = json.loads(ran.stdout)
        self.assertEqual(sorted(process["rank"] for process in answer["processes"]), ["0 of 2", "1 of 2"])

    def test_an_interrupted_program_is_told_until_then(self):
        with tempfile.TemporaryDirectory() as folder:
            recording = os.path.join(folder, "run.memrec")
            rest = os.path.join(folder, "rest")
            os.mkdir(rest)
            command = [MEMEST, "record", "--format", "json", "-o", recording, "--", PYTHON, "scripts/endless.py"]
            program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=HERE,
                                       start_new_session=True, env={**os.environ, "TMPDIR": rest})
            losses = (line for line in program.stderr if line.startswith("loss"))
            for _ in range(3):
                next(losses)
            os.killpg(program.pid, signal.SIGINT)
            answer, _ = program.communicate(timeout=120)
            self.assertEqual(program.returncode, 130)
            marks = [mark["name"] for mark in json.loads(answer)["processes"][0]["phases"]]
            self.assertIn("step3.optimizer", marks)
            self.assertEqual([name for name in os.listdir(rest) if name.startswith("memest")], [])
            replayed = subprocess.run([MEMEST, "replay", recording], capture_output=True, text=True)
            self.assertEqual(replayed.returncode, 0, replayed.stdout)

    def test_each_device_of_a_process_is_named(self):
        answer, _ = record(["--gpus", "2"], "scripts/two_devices.py")
        self.assertEqual([process["device"] for process in answer["processes"]], ["1 of 2", "2 of 2"])

    def test_a_program_without_pytorch_records_nothing(self):
        ran = run([], [PYTHON, "-c", "print(1)"])
        self.assertEqual(ran.returncode, 3)
        self.assertIn("nothing was recorded", ran.stdout)


if __name__ == "__main__":
    PYTHON, why = install()
    if sys.argv[1:] == ["--python"]:  # for ./dev truth
        print(PYTHON or why)
        sys.exit(0 if PYTHON else 1)
    if PYTHON is None:
        print(f"skipped: PyTorch cannot be installed: {why}")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1], verbosity=2)
