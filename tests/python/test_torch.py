# SPDX-License-Identifier: Apache-2.0
"""gradus.torch with a worker of the tests': gradients are torch's own, statistics, seeds, and what a task may do wrong."""

import contextlib
import io
import os
import random
import subprocess
import sys
import tempfile
import unittest

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python"), os.path.dirname(__file__)]
try:
    import torch
    from torch import nn
    import torch.nn.functional as F
    from torch.utils.data import TensorDataset
except ImportError:
    print("skipped: PyTorch is not installed")
    sys.exit(77)

import numpy

import gradus
import gradus.torch as gt
from fake_worker import FakeWorker, ProgramFailed, told

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def records(n=40, features=5, classes=3):
    g = torch.Generator().manual_seed(1)
    return torch.randn(n, features, generator=g), torch.randint(classes, (n,), generator=g)


class Small(gt.Task):
    """Two layers on records of its own."""

    data = TensorDataset(*records())

    def model(self):
        return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))

    def dataset(self, part):
        return self.data if part == "train" else TensorDataset(*records(9))

    def loss(self, model, batch):
        x, y = batch
        return F.cross_entropy(model(x), y, reduction="sum")

    def metrics(self, model, batch):
        x, y = batch
        return {"accuracy": ((model(x).argmax(1) == y).sum(), len(y))}


class WithModel(Small):
    def __init__(self, make):
        self.make = make

    def model(self):
        return self.make()


def served(task, **options):
    return FakeWorker(lambda: gt.worker(task, **options))


class Tasks(unittest.TestCase):
    def test_gradients_are_those_of_torch(self):
        with served(Small()) as f:
            d = f.job(seed=3)
            torch.manual_seed(3)
            own = Small().model()
            self.assertEqual(d.names, [n for n, _ in own.named_parameters()])
            for name, p in own.named_parameters():
                numpy.testing.assert_array_equal(d.values[name], p.detach().numpy())
            self.assertEqual((d.train_records, d.test_records), (40, 9))
            f.start()
            for chosen in ([3, 1, 39], list(range(20)), [7]):
                result, gradients = f.gradient(chosen)
                own.zero_grad()
                x, y = Small.data[chosen]
                loss = F.cross_entropy(own(x), y, reduction="sum")
                loss.backward()
                self.assertEqual(result.loss_sum, loss.item())
                self.assertEqual(result.examples, len(chosen))
                for name, p in own.named_parameters():
                    numpy.testing.assert_array_equal(gradients[name], p.grad.numpy())
            f.set_parameters({n: v * 0 for n, v in d.values.items()})  # seen at once: it is the same memory
            result, _ = f.gradient([0, 1])
            self.assertAlmostEqual(result.loss_sum, 2 * numpy.log(3), 5)
            f.set_parameters(d.values)
            result = f.evaluate(range(9))
            x, y = records(9)
            with torch.no_grad():
                self.assertEqual(result.loss_sum, F.cross_entropy(own(x), y, reduction="sum").item())
                self.assertEqual(result.correct, (own(x).argmax(1) == y).sum().item())

    def test_other_memory_for_parameters(self):
        from fake_worker import PARAMETERS
        with served(Small()) as f:
            d = f.job()
            f.start()
            first, _ = f.gradient([1, 2])
            f.array(PARAMETERS, d.floats * 4)  # said again: it takes the place of the one before
            f.set_parameters({n: v * 0 for n, v in d.values.items()})
            second, _ = f.gradient([1, 2])
            self.assertAlmostEqual(second.loss_sum, 2 * numpy.log(3), 5)
            f.set_parameters(d.values)
            again, _ = f.gradient([1, 2])
            self.assertEqual(again.loss_sum, first.loss_sum)

    def test_a_list_of_records_is_collated(self):
        class Listed(Small):
            def dataset(self, part):
                x, y = records()
                return list(zip(x, y))
        with served(Listed()) as f, tempfile.TemporaryDirectory():
            f.job()
            f.start()
            a, ga = f.gradient([5, 6, 7])
        with served(Small()) as f:
            f.job()
            f.start()
            b, gb = f.gradient([5, 6, 7])
        self.assertEqual(a.loss_sum, b.loss_sum)
        numpy.testing.assert_array_equal(ga["0.weight"], gb["0.weight"])

    def test_records_of_the_job(self):
        class Given(Small):
            def dataset(self, part):
                return None
        x, y = records(4)
        with served(Given()) as f:
            d = f.job()
            self.assertEqual((d.train_records, d.test_records), (0, 0))
            f.start((5,), True, True)
            a, _ = f.gradient([0, 1, 2, 3], features=x.numpy(), targets=y.numpy(), classes=y.numpy())
            b, _ = f.gradient([0, 1, 2, 3], features=x.numpy(), targets=y.numpy(), classes=(y.numpy() + 1) % 3)
        torch.manual_seed(7)
        own = Small().model()
        self.assertEqual(a.loss_sum, F.cross_entropy(own(x), y, reduction="sum").item())
        self.assertNotEqual(a.loss_sum, b.loss_sum)

    def test_real_labels(self):
        class Regression(gt.Task):
            def model(self):
                return nn.Linear(2, 1)

            def loss(self, model, batch):
                x, y = batch
                error = model(x)[:, 0] - y
                return (error ** 2).sum(), {"rmse": ((error ** 2).sum(), len(y)), "mae": (error.abs().sum(), len(y))}
        with served(Regression()) as f:
            d = f.job()
            f.start((2,), True, False)
            f.set_parameters({n: v * 0 for n, v in d.values.items()})
            result, gradients = f.gradient([0, 1], features=[[1, 2], [3, 4]], targets=[0.5, -2])
        self.assertEqual((result.loss_sum, result.squared_error_sum, result.absolute_error_sum), (4.25, 4.25, 2.5))
        numpy.testing.assert_array_equal(gradients["weight"], [[11, 14]])

    def test_batch_normalisation(self):
        def make():
            return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
        with served(WithModel(make)) as f:
            d = f.job(seed=3)
            self.assertEqual(d.names, ["0.weight", "0.bias", "1.weight", "1.bias", "3.weight", "3.bias", "1.running_mean",
                                       "1.running_var"])
            self.assertEqual([d.kinds[n] for n in d.names], [0] * 6 + [1] * 2)
            f.start()
            torch.manual_seed(3)
            own = make()
            x, y = Small.data[:10]
            F.cross_entropy(own(x), y, reduction="sum").backward()
            for _ in range(2):  # the second time from the same values: the first left nothing behind
                _, gradients = f.gradient(range(10))
                numpy.testing.assert_array_equal(gradients["1.running_mean"], own[1].running_mean.numpy() * 10)
                numpy.testing.assert_array_equal(gradients["1.running_var"], own[1].running_var.numpy() * 10)
                numpy.testing.assert_array_equal(gradients["0.weight"], own[0].weight.grad.numpy())
            values = dict(d.values)
            values["1.running_mean"], values["1.running_var"] = own[1].running_mean.numpy(), own[1].running_var.numpy()
            f.set_parameters(values)
            own.eval()
            x, y = records(9)
            with torch.no_grad():
                self.assertEqual(f.evaluate(range(9)).loss_sum, F.cross_entropy(own(x), y, reduction="sum").item())

    def test_tied_and_frozen_parameters(self):
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b, self.fixed = nn.Linear(5, 5, bias=False), nn.Linear(5, 5, bias=False), nn.Linear(5, 3)
                self.b.weight = self.a.weight
                self.fixed.weight.requires_grad_(False)
                self.fixed.bias.requires_grad_(False)

            def forward(self, x):
                return self.fixed(torch.tanh(self.b(self.a(x))))
        prints = []
        for seed in 3, 4:
            with served(WithModel(Tied)) as f:
                d = f.job(seed=seed)
                self.assertEqual(d.names, ["a.weight"])
                prints.append(d.fingerprint)
                f.start()
                _, gradients = f.gradient([1, 2, 3])
        self.assertNotEqual(prints[0], prints[1])  # other constants
        torch.manual_seed(4)
        own = Tied()
        x, y = Small.data[[1, 2, 3]]
        F.cross_entropy(own(x), y, reduction="sum").backward()
        numpy.testing.assert_array_equal(gradients["a.weight"], own.a.weight.grad.numpy())

    def test_what_is_random_comes_from_the_seed(self):
        class Random(Small):
            def model(self):
                return nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.5), nn.Linear(8, 3))

            def loss(self, model, batch):
                return super().loss(model, batch) * (1 + random.random() + numpy.random.rand())
        with served(Random()) as f:
            f.job()
            f.start()
            a, b, c = (f.gradient([1, 2, 3], seed=s)[0].loss_sum for s in (2**64 - 1, 2**63, 2**64 - 1))
            self.assertEqual(a, c)
            self.assertNotEqual(a, b)
            self.assertEqual(f.evaluate([1]).loss_sum, f.evaluate([1]).loss_sum)

    def test_unused_parameters_and_five_dimensions(self):
        class Volume(nn.Module):
            def __init__(self):
                super().__init__()
                self.kernel, self.unused = nn.Conv3d(1, 3, (1, 1, 5)), nn.Linear(2, 2)

            def forward(self, x):
                return self.kernel(x.view(-1, 1, 1, 1, 5)).flatten(1)
        with served(WithModel(Volume)) as f:
            d = f.job(seed=3)
            self.assertEqual(d.shapes["kernel.weight"], (3, 1, 1, 5))
            f.start()
            f._view(1, "unused.weight")[...] = 9
            _, gradients = f.gradient([1, 2])
        torch.manual_seed(3)
        own = Volume()
        x, y = Small.data[[1, 2]]
        F.cross_entropy(own(x), y, reduction="sum").backward()
        numpy.testing.assert_array_equal(gradients["kernel.weight"].ravel(), own.kernel.weight.grad.numpy().ravel())
        self.assertFalse(gradients["unused.weight"].any())

    def test_losses_that_are_no_numbers_pass(self):
        class Nan(Small):
            def loss(self, model, batch):
                return super().loss(model, batch) * float("nan")
        with served(Nan()) as f:
            f.job()
            f.start()
            result, gradients = f.gradient([1])
            self.assertTrue(numpy.isnan(result.loss_sum) and numpy.isnan(gradients["2.bias"]).all())

    def test_the_job_is_known(self):
        class Named(Small):
            def model(self):
                self.seen = self.job
                return super().model()
        task = Named()
        with served(task) as f:
            f.job(program="wide", seed=12, text="name: x\n")
            self.assertEqual((task.seen.program, task.seen.seed, task.seen.text, task.seen.id),
                             ("wide", 12, "name: x\n", "mine-1"))
            f.end_job()
            f.job()  # another one, in the same process
            f.start()
            f.gradient([1])


class Mistakes(unittest.TestCase):
    def job_fails(self, task, text):
        with served(task) as f:
            with self.assertRaisesRegex(ProgramFailed, text):
                f.job()

    def batch_fails(self, task, text, kind="gradient"):
        with served(task) as f:
            f.job()
            f.start()
            for _ in range(2):  # the program lives on
                with self.assertRaisesRegex(ProgramFailed, text):
                    getattr(f, kind)([1, 2])

    def test_models(self):
        self.job_fails(WithModel(lambda: nn.Linear(5, 3).double()), r"parameter weight is torch.float64.*model.float\(\)")
        self.job_fails(WithModel(lambda: nn.Embedding(5, 3, sparse=True)), "has its rows in a table of the job, which declares none")
        self.job_fails(WithModel(lambda: nn.LazyLinear(3)), "has no shape yet")
        self.job_fails(WithModel(lambda: nn.ReLU()), "no parameter that requires a gradient")
        self.job_fails(WithModel(lambda: 3), r"model\(\) returned int")
        self.job_fails(WithModel(lambda: nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3, momentum=None))), "give it a momentum")
        self.job_fails(WithModel(lambda: 1 // 0), "(?s)Traceback.*ZeroDivisionError")

        def infinite():
            model = nn.Linear(5, 3)
            nn.init.constant_(model.bias, float("inf"))
            return model
        self.job_fails(WithModel(infinite), 'variable 1 \\("bias"\\): initial value 0 is infinite')

    def test_datasets(self):
        class Iterable(Small):
            def dataset(self, part):
                return iter([])
        self.job_fails(Iterable(), "map-style, not iterable")

        class Nothing(Small):
            def dataset(self, part):
                return None
        self.batch_fails(Nothing(), 'dataset\\("train"\\) is None, and the job has no `data`')

    def test_models_that_leave_their_memory(self):
        class Double(Small):
            def loss(self, model, batch):
                model.double()
                return F.cross_entropy(model(batch[0].double()), batch[1], reduction="sum")
        with served(Double()) as f:
            f.job()
            f.start()
            with self.assertRaisesRegex(ProgramFailed, r"parameter 0.weight is now torch.float64.*no .double\(\)"):
                f.gradient([1])

        class Back(Small):
            def loss(self, model, batch):
                model.double().float()
                return super().loss(model, batch)
        self.batch_fails(Back(), "parameter 0.weight was given other memory")
        self.batch_fails(Back(), "parameter 0.weight was given other memory", "evaluate")

        class Other(Small):
            def loss(self, model, batch):
                model[0].weight.data = torch.zeros(4, 5)
                model[0].bias.data = torch.zeros(4)
                model[2].weight.data = torch.zeros(3, 4)
                return super().loss(model, batch)
        self.batch_fails(Other(), r"parameter 0.weight is now torch.float32, \[4, 5\]")

    def test_modules_that_change(self):
        class Wider(Small):
            """Other layers from its second batch on, which nobody would train."""
            batches = 0

            def loss(self, model, batch):
                self.batches += 1
                if self.batches == 2:
                    model[0], model[2] = nn.Linear(5, 9), nn.Linear(9, 3)
                return super().loss(model, batch)
        with served(Wider()) as f:
            f.job()
            f.start()
            f.gradient([1])
            for _ in range(2):
                with self.assertRaisesRegex(ProgramFailed, r"parameter 0.weight is another one now, \[9, 5\]: the modules of a model stay"):
                    f.gradient([2])

        class Growing(nn.Linear):
            def forward(self, x):
                if not hasattr(self, "more"):
                    self.more = nn.Linear(3, 3)
                return self.more(super().forward(x))
        self.batch_fails(WithModel(lambda: Growing(5, 3)), "parameter more.weight is new")

    def test_parameters_that_are_frozen_or_thawed_later(self):
        """What is trained was said when the job began: gradients of zero, or none that anybody takes, would go unseen."""
        def from_the_second_batch(change, model=Small.model):
            class Changing(Small):
                batches = 0

                def model(self):
                    return model(self)

                def loss(self, model, batch):
                    self.batches += 1
                    if self.batches == 2:
                        change(model)
                    return super().loss(model, batch)
            with served(Changing()) as f:
                f.job()
                f.start()
                f.gradient([1])
                said = set()
                for _ in range(2):
                    with self.assertRaises(ProgramFailed) as failed:
                        f.gradient([2])
                    said.add(str(failed.exception))
            self.assertEqual(len(said), 1)
            return said.pop()

        def half_frozen(task):
            model = Small.model(task)
            model[0].requires_grad_(False)
            return model
        frozen = from_the_second_batch(lambda model: model[0].bias.requires_grad_(False))
        self.assertRegex(frozen, r"^parameter 0.bias requires no gradient any more: .*set requires_grad in model\(\).*frozen: true")
        self.assertRegex(from_the_second_batch(lambda model: model.requires_grad_(False)), "^parameter 0.weight requires no gradient any more")
        thawed = from_the_second_batch(lambda model: model[0].bias.requires_grad_(True), half_frozen)
        self.assertRegex(thawed, r"^parameter 0.bias requires a gradient now, .*set requires_grad in model\(\).*frozen: true")

        class Meanwhile(Small):
            def loss(self, model, batch):  # as a part that another one is trained against
                model[2].requires_grad_(False)
                loss = super().loss(model, batch)
                model[2].requires_grad_(True)
                return loss
        with served(Meanwhile()) as f:
            f.job()
            f.start()
            _, gradients = f.gradient([1])
        self.assertFalse(gradients["2.weight"].any())
        self.assertTrue(gradients["0.weight"].any())

    def test_frozen_parameters_that_change(self):
        """Each worker would compute with another one."""
        class Moving(nn.Module):
            def __init__(self):
                super().__init__()
                self.line = nn.Linear(5, 3)
                self.scale = nn.Parameter(torch.ones(()), requires_grad=False)

            def forward(self, x):
                with torch.no_grad():
                    self.scale.mul_(0.9)
                return self.line(x) * self.scale.detach().clone()
        self.batch_fails(WithModel(Moving), "parameter scale was changed by the model.*requires no gradient")

    def test_buffers_that_change(self):
        class Counting(nn.Module):
            def __init__(self):
                super().__init__()
                self.line = nn.Linear(5, 3)
                self.register_buffer("seen", torch.zeros(()))

            def forward(self, x):
                self.seen += 1
                return self.line(x)
        self.batch_fails(WithModel(Counting), r"buffer seen was changed by the model.*Task.statistics\(\)")

        class Named(WithModel):
            def statistics(self, model):
                return ["seen"]
        with served(Named(Counting)) as f:
            f.job()
            f.start()
            for _ in range(2):
                self.assertEqual(f.gradient([1, 2, 3])[1]["seen"], 3)

        class Wrong(WithModel):
            def statistics(self, model):
                return ["line"]
        self.job_fails(Wrong(Counting), 'names "line", which is no buffer')

    def test_losses(self):
        def with_loss(value):
            class Task(Small):
                def loss(self, model, batch):
                    return value(super().loss(model, batch))
            return Task()
        one = r"; it is one number, a tensor of shape \[\] .*the sum .*test_torch.py, line \d+"
        self.batch_fails(with_loss(lambda v: None), r"^loss\(\) returned None" + one)
        self.batch_fails(with_loss(lambda v: v.item()), r"^loss\(\) returned float" + one)
        self.batch_fails(with_loss(lambda v: v.expand(2)), r"^loss\(\) returned a tensor of torch.float32 with shape \[2\]" + one)
        self.batch_fails(with_loss(lambda v: v.expand(2)), r"a tensor of torch.float32 with shape \[2\]" + one, "evaluate")
        self.batch_fails(with_loss(lambda v: v * 1j), r"a tensor of torch.complex64 with shape \[\]" + one)
        self.batch_fails(with_loss(lambda v: (v,)), r"^loss\(\) returned a tuple of 1" + one)
        self.batch_fails(with_loss(lambda v: (v, None)), r"^loss\(\) returned None as metrics; they are a dictionary of pairs")
        for cut in (lambda v: v.detach(), lambda v: torch.tensor(v.item(), requires_grad=True), lambda v: v.round().long()):
            self.batch_fails(with_loss(cut), r"^loss\(\) returned a tensor of torch.\w+ with shape \[\] that was not computed from "
                             r"the parameters \(it has no grad_fn\).*test_torch.py, line \d+")
        self.batch_fails(with_loss(lambda v: 1 // 0), "(?s)Traceback.*test_torch.py((?!\\^\\^).)*ZeroDivisionError")

    def test_metrics(self):
        def with_metrics(value):
            class Task(Small):
                def metrics(self, model, batch):
                    return value
            return Task()
        dictionary = r"; they are a dictionary of pairs .*\(right answers, records\).*test_torch.py, line \d+"
        pair = r"which is not a pair \(sum over the records, records\).*test_torch.py, line \d+"
        for value, words in ((None, r"^metrics\(\) returned None as metrics" + dictionary),
                             (torch.zeros(3), r"^metrics\(\) returned a tensor of torch.float32 with shape \[3\] as metrics" + dictionary),
                             ({"accuracy": 0.5}, r'^metrics\(\) returned float for "accuracy", ' + pair),
                             ({"accuracy": (1, 2, 3)}, r'^metrics\(\) returned a tuple of 3 for "accuracy", ' + pair),
                             ({"accuracy": (torch.zeros(2), 2)}, r'for "accuracy" a sum that is a tensor of torch.float32 with shape \[2\] and not one number'),
                             ({"accuracy": (numpy.zeros(2), 2)}, r'for "accuracy" a sum that is an array of float64 with shape \[2\] and not'),
                             ({"accuracy": ("1", 2)}, 'for "accuracy" a sum that is str and not one number'),
                             ({"accuracy": (1, None)}, 'for "accuracy" a number of records that is None and not one number'),
                             ({"accuracy": (1, 5)}, 'counts 5 records of 2 for "accuracy"'),
                             ({"accuracy": (1, float("nan"))}, 'counts nan records of 2 for "accuracy"'),
                             ({"f1": (1, 2)}, '^metrics\\(\\) names "f1"; known are accuracy, rmse, mae')):
            self.batch_fails(with_metrics(value), words, "evaluate")
        for value in ((1, 2), torch.tensor([1., 2.]), (torch.ones(1), numpy.int64(2)), (numpy.float32(1), torch.tensor(2))):
            with served(with_metrics({"accuracy": value})) as f:
                f.job()
                f.start()
                self.assertEqual(f.evaluate([1, 2]).correct, 1)

    def told_of(self, task, ask=lambda f: f.gradient([1, 2])):
        """What fails of a job with it, and what the status has of that."""
        with served(task) as f:
            with self.assertRaises(ProgramFailed) as failed:
                f.job()
                f.start()
                ask(f)
        return str(failed.exception), told(str(failed.exception))

    def test_own_errors_are_their_message(self):
        for task, words in ((WithModel(lambda: 3), "model() returned int, which is no torch.nn.Module"),
                            (WithModel(lambda: nn.ReLU()), "the model has no parameter that requires a gradient")):
            self.assertEqual(self.told_of(task)[0], words)
        self.assertRegex(self.told_of(gt.Task())[0], r"^a task has a model\(self\)")

    def test_the_line_of_the_model_is_told(self):
        """However deep in the library it fails, and however much that says."""
        class Deep(nn.Module):
            def __init__(self):
                super().__init__()
                self.line = nn.Sequential(nn.Sequential(nn.Sequential(nn.Sequential(nn.Linear(4, 3)))))

            def forward(self, x):
                return self.line(x)  # records have 5 features
        whole, shown = self.told_of(WithModel(Deep))
        self.assertRegex(shown, r'(?s)File ".*test_torch\.py", line \d+, in forward\n *return self.line\(x\).*\nRuntimeError: ')
        self.assertNotIn("gradus/", whole.replace("gradus/test", ""))

        class Verbose(Small):
            def metrics(self, model, batch):
                raise ValueError("\n".join(["these do not fit:"] + [f"size of layer {i}: {i}" for i in range(200)] + ["that is all"]))
        with contextlib.redirect_stderr(io.StringIO()) as log:
            _, shown = self.told_of(Verbose(), lambda f: f.evaluate([1]))
        self.assertRegex(shown, "(?s)in metrics\n.*ValueError: these do not fit:\n.*that is all$")
        self.assertIn("\nsize of layer 100: 100\n", log.getvalue())  # all of it


class Processes(unittest.TestCase):
    """What a script does that no worker has started."""

    SCRIPT = "import sys; sys.path.insert(0, %r); import gradus.torch as gt; gt.worker(gt.Task(), %s)"

    def run_script(self, master, environment):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
            script.write(self.SCRIPT % (SOURCE + "/python", master))
            script.flush()
            environment = {**{k: v for k, v in os.environ.items() if not k.startswith("GRADUS")}, **environment}
            done = subprocess.run([sys.executable, script.name, "a b"], env=environment, capture_output=True, text=True,
                                  timeout=60)
            return done, script.name

    def test_it_becomes_a_worker(self):
        with tempfile.TemporaryDirectory() as bin_dir:
            path = os.path.join(bin_dir, "gradus-worker")
            with open(path, "w", encoding="utf-8") as f:
                f.write('#!/bin/sh\nprintf "%s\\n" "$@"\n')
            os.chmod(path, 0o755)
            done, script = self.run_script("'h:7000'", {"GRADUS_BIN": bin_dir})
            self.assertEqual(done.stdout.split("\n")[:3], ["--master", "h:7000", "--program"], done.stderr)
            self.assertTrue(done.stdout.split("\n")[3].endswith(f"{script} 'a b'"), done.stdout)
            done, _ = self.run_script("None", {"PATH": bin_dir + ":/usr/bin:/bin"})
            self.assertEqual(done.stdout.split("\n")[0], "--program", done.stderr)

    def test_what_is_no_task(self):
        """It is said before anything is started."""
        for wrong, words in ((nn.Linear(1, 1), r"worker\(\) takes an object of a class derived from gradus.torch.Task, and got Linear"),
                             (Small, r"got the class Small: Small\(\.\.\.\)")):
            with self.assertRaisesRegex(gradus.UseError, words):
                gt.worker(wrong)

    def test_there_is_none(self):
        for environment, words in (({"GRADUS_BIN": "/nowhere"}, "no gradus-worker in /nowhere"),
                                   ({"PATH": "/nowhere"}, "no gradus-worker on PATH; set GRADUS_BIN")):
            done, _ = self.run_script("None", environment)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
