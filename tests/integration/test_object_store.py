# SPDX-License-Identifier: Apache-2.0
"""common/storage on an object store that verifies signatures, and in trouble of every kind.

Usage: test_object_store.py STORAGE_TOOL"""

import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from s3_server import Store

TOOL = sys.argv.pop(1) if len(sys.argv) > 1 else ""
PART, UPLOAD_PART = 8 << 20, 16 << 20  # of what is read, and written
ROOT = "s3://bucket/root"


class ObjectStoreTest(unittest.TestCase):
    def setUp(self):
        self.env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GRADUS_S3_ATTEMPTS": "4",
                    "GRADUS_S3_STALL_SECONDS": "20"}
        self.serve(Store())

    def serve(self, store):
        self.store = store
        self.store.__enter__()
        self.addCleanup(self.store.__exit__)
        self.env.update(self.store.environment())

    def call(self, *args):
        done = subprocess.run([TOOL, *map(str, args)], capture_output=True, text=True, timeout=120, env=self.env)
        self.assertEqual(done.stderr, "")
        self.assertNotIn("left behind", done.stdout)
        return done.stdout.strip()

    def ok(self, *args):
        answer = self.call(*args)
        self.assertEqual(answer.split()[0], "ok", answer)
        return answer[3:]

    def error(self, code, *args):
        answer = self.call(*args)
        self.assertTrue(answer.startswith(f"error {code} "), answer)
        return answer

    # ---- without trouble ----

    def test_small_files(self):
        for name in ("a", "d/b c", "d/ü+&=%?#~", "d/e/f"):
            self.ok("write", f"{ROOT}/{name}", f"text of {name}")
            self.assertEqual(self.ok("read", f"{ROOT}/{name}"), f"text of {name}")
        self.assertEqual(self.ok("list", ROOT), "a d")
        self.assertEqual(self.ok("list", f"{ROOT}/d"), "b c e ü+&=%?#~")
        self.assertEqual(self.ok("look", f"{ROOT}/d"), "directory")
        self.assertEqual(self.ok("look", f"{ROOT}/a"), "file")
        self.assertEqual(self.ok("look", f"{ROOT}/"), "directory")
        self.assertEqual(self.ok("look", "s3://bucket"), "directory")
        self.assertEqual(self.ok("look", f"{ROOT}/d/b"), "nothing")
        self.error("exists", "make-dir", f"{ROOT}/d")
        self.ok("make-dir", f"{ROOT}/new")
        self.ok("remove", f"{ROOT}/a")
        self.ok("remove", f"{ROOT}/a")
        self.error("not_found", "read", f"{ROOT}/a")
        self.error("not_found", "list", f"{ROOT}/a")
        self.ok("write", f"{ROOT}/empty", "")
        self.assertEqual(self.ok("read", f"{ROOT}/empty"), "")
        self.assertEqual(self.ok("look", f"{ROOT}/empty"), "file")

    def test_lists_of_several_pages(self):
        names = [f"f{i:02}" for i in range(20)]
        for name in names:
            self.store.buckets["bucket"][f"root/{name}"] = (b"x", '"t"', "")
        self.store.buckets["bucket"]["rootless/z"] = (b"x", '"t"', "")
        self.assertEqual(self.ok("list", ROOT).split(), names)
        self.ok("remove-tree", ROOT)
        self.assertEqual(self.store.keys(), ["rootless/z"])
        self.ok("remove-tree", ROOT)

    def test_files_of_all_sizes(self):
        for size in (0, 1, UPLOAD_PART - 1, UPLOAD_PART, UPLOAD_PART + 1, 5 * UPLOAD_PART + 7):
            with self.subTest(size=size):
                self.ok("upload", f"{ROOT}/f", size)
                self.ok("download", f"{ROOT}/f", size, 1 << 20)
                self.ok("download", f"{ROOT}/f", size, 6 << 20)
                self.assertEqual(self.store.uploads, {})

    def test_bodies_are_signed_unless_tls_protects_them(self):
        """An upload in parts and a small file: are their bodies under the signature?"""
        def unsigned():
            self.store.unsigned = 0
            self.ok("upload", f"{ROOT}/f", UPLOAD_PART + 1)  # a beginning without a body, two parts, an end
            self.ok("write", f"{ROOT}/a", "x")
            self.ok("download", f"{ROOT}/f", UPLOAD_PART + 1, PART)
            return self.store.unsigned
        self.assertEqual(unsigned(), 0)
        self.env["GRADUS_S3_SIGN_PAYLOAD"] = "false"
        self.assertEqual(unsigned(), 4)
        del self.env["GRADUS_S3_SIGN_PAYLOAD"]
        with tempfile.TemporaryDirectory() as directory:
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=store",
                            "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{directory}/key", "-out", f"{directory}/crt"],
                           check=True, capture_output=True)
            self.serve(Store(tls=(f"{directory}/crt", f"{directory}/key")))
            self.assertIn("certificate", self.error("unavailable", "look", f"{ROOT}/a"))
            self.env["AWS_CA_BUNDLE"] = f"{directory}/crt"
            self.assertEqual(unsigned(), 4)
            self.env["GRADUS_S3_SIGN_PAYLOAD"] = "true"
            self.assertEqual(unsigned(), 0)

    def test_what_is_given_up_leaves_nothing(self):
        for size in (1, UPLOAD_PART, 3 * UPLOAD_PART):
            self.ok("abort", f"{ROOT}/f", size)
            self.assertEqual((self.store.keys(), self.store.uploads), ([], {}))

    def test_uploads_of_the_dead_are_removed_with_the_tree(self):
        for key in ("root/d/a", "root/d/b", "root/dd/c"):
            self.store.uploads[key + "-id"] = {"bucket": "bucket", "key": key, "parts": {}, "nonce": ""}
        self.ok("remove-tree", f"{ROOT}/d")
        self.assertEqual(list(self.store.uploads), ["root/dd/c-id"])

    def test_patterns(self):
        for name in ("part-1", "part-10", "part-2", ".part-3", "Part-4", "a/part-5", "a/b/part-6", "dir/", "odd[1]",
                     "x y+%/z"):
            self.store.buckets["bucket"][f"root/{name}"] = (b"x", '"t"', "")
        self.store.buckets["bucket"]["rootless/part-7"] = (b"x", '"t"', "")
        for pattern, names in (("part-*", "part-1 part-10 part-2"), ("part-?", "part-1 part-2"), ("*/part-*", "a/part-5"),
                               ("a/*/part-[0-9]", "a/b/part-6"), ("[Pp]art-[24]", "Part-4 part-2"), (".p*", ".part-3"),
                               ("d*", ""), ("odd\\[1]", "odd[1]"), ("x*/z", "x y+%/z"), ("none*", "")):
            with self.subTest(pattern=pattern):
                found = self.ok("find", ROOT, pattern)
                self.assertEqual(found, " ".join(f"{ROOT}/{n}" for n in names.split()) if " y" not in names
                                 else f"{ROOT}/{names}")
        self.assertEqual(self.ok("find", "s3://bucket", "root*/part-7"), "s3://bucket/rootless/part-7")
        asked = [p for _, p in self.store.requests if "prefix=root%2Fpart-" in p]
        self.assertTrue(asked and all("delimiter=%2F" in p for p in asked), asked)
        self.error("state", "find", "s3://nowhere", "*")
        self.error("invalid", "find", "s3://b", "*")
        self.error("unsupported", "find", "/tmp", "*")

    def test_stamps(self):
        self.error("not_found", "stamp", f"{ROOT}/a")
        seen = set()
        for text in ("", "x", "y", "xx"):
            self.ok("write", f"{ROOT}/a", text)
            stamp = self.ok("stamp", f"{ROOT}/a")
            self.assertEqual(self.ok("stamp", f"{ROOT}/a"), stamp)
            seen.add(stamp)
        self.assertEqual(len(seen), 4)

    # ---- from the beginning to the end ----

    def gets(self):
        return sum(method == "GET" for method, _ in self.store.requests)

    def test_streams_of_all_sizes(self):
        head = 64 << 10
        for size, requests in ((0, 1), (1, 1), (head, 1), (head + 1, 2), (PART, 2), (PART + head, 2), (PART + head + 1, 3),
                               (5 * PART + head + 7, 7)):
            with self.subTest(size=size):
                self.ok("upload", f"{ROOT}/f", size)
                before = self.gets()
                self.ok("stream", f"{ROOT}/f", size, 1000003)
                self.assertEqual(self.gets() - before, requests)
        self.ok("stream", f"{ROOT}/f", 5 * PART + head + 7, 20 << 20)

    def test_a_stream_is_read_ahead_and_given_up(self):
        self.ok("upload", f"{ROOT}/f", 9 * PART)
        before = self.gets()
        self.ok("stream", f"{ROOT}/f", 9 * PART, 1000, 60000)  # the head alone
        self.assertEqual(self.gets() - before, 1)
        self.store.fail("slow-answer", "GET", "root/f", 100, pause=0.5)  # 4 s each, given up after the first
        self.ok("stream", f"{ROOT}/f", 9 * PART, 65536, 80000)
        self.assertLessEqual(self.gets() - before, 2 + 6)  # no more than four parts, and the next ones of the first

    def test_a_stream_in_trouble(self):
        self.ok("upload", f"{ROOT}/f", 3 * PART)
        self.env["GRADUS_S3_STALL_SECONDS"] = "2"
        cut = self.store.fail("cut-answer", "GET", "root/f", 7)
        self.store.fail("status", "GET", "root/f", 2, status=503)
        self.store.fail("stall", "GET", "root/f", 1, seconds=3)
        self.ok("stream", f"{ROOT}/f", 3 * PART, 1 << 20)
        self.assertEqual(cut.hits, 7)
        self.store.fail("status", "GET", "root/f", 1000, status=503)
        self.error("unavailable", "stream", f"{ROOT}/f", 3 * PART, 1 << 20)

    # ---- claims ----

    def test_one_of_all_who_claim_gets_it(self):
        processes = [subprocess.Popen([TOOL, "claim", f"{ROOT}/owner", str(i)], stdout=subprocess.PIPE, text=True,
                                      env=self.env) for i in range(8)]
        answers = [p.communicate(timeout=120)[0].strip() for p in processes]
        self.assertEqual(sorted(a.split()[0] for a in answers), ["error"] * 7 + ["ok"])
        self.assertTrue(all(a == "ok" or a.startswith("error exists") for a in answers), answers)
        self.assertEqual(self.ok("read", f"{ROOT}/owner"), str(answers.index("ok")))

    def test_a_claim_whose_answer_was_lost_holds(self):
        self.store.fail("lost-answer", "PUT", "owner")
        self.ok("claim", f"{ROOT}/owner", "me")
        self.error("exists", "claim", f"{ROOT}/owner", "me")

    def test_a_store_without_conditions(self):
        self.store.fail("status", "PUT", "owner", times=2, status=501, code="NotImplemented")
        self.error("unsupported", "claim", f"{ROOT}/owner", "me")  # it refuses the write as well
        self.store.fail("status", "PUT", "owner", times=1, status=501, code="NotImplemented")
        self.ok("claim", f"{ROOT}/owner", "me")
        self.store.fail("status", "PUT", "owner", times=1, status=501, code="NotImplemented")
        self.error("exists", "claim", f"{ROOT}/owner", "you")

    # ---- trouble that passes ----

    def test_refusals_that_pass(self):
        for status in (500, 502, 503, 429, 408):
            for method, what in (("PUT", ("write", f"{ROOT}/a", "x")), ("GET", ("read", f"{ROOT}/a")),
                                 ("GET", ("list", ROOT)), ("DELETE", ("remove", f"{ROOT}/b"))):
                with self.subTest(status=status, what=what):
                    fault = self.store.fail("status", method, "", 1, status=status)
                    self.ok(*what)
                    self.assertEqual(fault.hits, 1)

    def test_the_store_says_when_to_come_again(self):
        early = self.store.fail("come-again", "PUT", status=503, code="SlowDown")
        self.ok("write", f"{ROOT}/a", "x")
        self.assertEqual(early.hits, 1)  # when it was told, and not before it was to come again

    def test_connections_that_break_in_the_middle_of_a_part(self):
        cut = self.store.fail("cut-request", "PUT", "partNumber=2", 2)
        gone = self.store.fail("hang-up", "PUT", "partNumber=3", 1)
        lost = self.store.fail("lost-answer", "PUT", "partNumber=1", 1)
        self.ok("upload", f"{ROOT}/f", 3 * UPLOAD_PART)
        self.assertEqual((cut.hits, gone.hits, lost.hits), (2, 1, 1))
        self.ok("download", f"{ROOT}/f", 3 * UPLOAD_PART, PART)

    def test_a_download_goes_on_where_it_broke(self):
        self.ok("upload", f"{ROOT}/f", PART)
        cut = self.store.fail("cut-answer", "GET", "root/f", 6)  # more than attempts in a row
        self.ok("download", f"{ROOT}/f", PART, PART)
        self.assertEqual(cut.hits, 6)

    def test_slow_is_not_stuck(self):
        self.env["GRADUS_S3_STALL_SECONDS"] = "6"
        self.ok("write", f"{ROOT}/a", "x" * 80)
        slow = self.store.fail("slow-answer", "GET", "root/a", 1, pause=0.8)  # more in all
        before = len(self.store.requests)
        self.assertEqual(self.ok("read", f"{ROOT}/a"), "x" * 80)
        self.assertEqual((slow.hits, len(self.store.requests) - before), (1, 1))

    def test_a_connection_that_stands_still_is_given_up(self):
        self.env["GRADUS_S3_STALL_SECONDS"] = "1"
        stall = self.store.fail("stall", "PUT", "root/a", 1, seconds=3600)
        self.ok("write", f"{ROOT}/a", "x")
        self.assertEqual(stall.hits, 1)

    def test_putting_together_may_fail_late_or_in_silence(self):
        for kind in ("late-error", "lost-answer", "hang-up"):
            with self.subTest(kind=kind):
                fault = self.store.fail(kind, "POST", "uploadId=", 1)
                self.ok("upload", f"{ROOT}/f", UPLOAD_PART + 1)
                self.assertEqual(fault.hits, 1)
                self.ok("download", f"{ROOT}/f", UPLOAD_PART + 1, PART)

    # ---- trouble that stays ----

    def test_a_store_that_is_not_there(self):
        self.env["GRADUS_S3_ENDPOINT"] = "http://127.0.0.1:1"
        self.assertIn("after 4 attempts", self.error("unavailable", "read", f"{ROOT}/a"))
        self.assertIn("http://127.0.0.1:1", self.error("unavailable", "look", f"{ROOT}/a"))

    def test_refusals_that_do_not_pass(self):
        self.store.fail("status", "GET", "", 100, status=503)
        self.error("unavailable", "look", f"{ROOT}/a")
        self.assertEqual(len(self.store.requests), 4)

    def test_a_part_that_cannot_be_sent(self):
        self.store.fail("cut-request", "PUT", "partNumber=2", 100)
        self.error("unavailable", "upload", f"{ROOT}/f", 6 * UPLOAD_PART)
        self.assertEqual((self.store.keys(), self.store.uploads), ([], {}))

    def test_a_store_that_is_full(self):
        for status, code in ((507, "XMinioStorageFull"), (403, "QuotaExceeded"), (413, "EntityTooLarge")):
            self.store.fail("status", "PUT", "", 100, status=status, code=code)
            before = len(self.store.requests)
            self.error("exhausted", "write", f"{ROOT}/a", "x")
            self.assertEqual(len(self.store.requests) - before, 1)  # not tried again
            self.error("exhausted", "upload", f"{ROOT}/f", 3 * UPLOAD_PART)
            self.assertEqual((self.store.keys(), self.store.uploads), ([], {}))
            self.store.faults.clear()

    def test_who_we_are(self):
        self.store.token = "session token"
        self.assertIn("session token", self.error("unauthenticated", "look", f"{ROOT}/a"))
        self.env["AWS_SESSION_TOKEN"] = "session token"
        self.ok("write", f"{ROOT}/a", "x")
        self.env["AWS_SECRET_ACCESS_KEY"] = "wrong"
        for what in (("read", f"{ROOT}/a"), ("write", f"{ROOT}/a", "y"), ("list", ROOT), ("claim", f"{ROOT}/b", "x"),
                     ("upload", f"{ROOT}/f", 2 * UPLOAD_PART)):
            before = len(self.store.requests)
            self.assertIn("the secret key is wrong", self.error("unauthenticated", *what))
            self.assertEqual(len(self.store.requests) - before, 1)
        self.env["AWS_ACCESS_KEY_ID"] = "nobody"
        self.assertIn("access key is not known", self.error("unauthenticated", "look", f"{ROOT}/a"))
        del self.env["AWS_ACCESS_KEY_ID"]
        self.assertIn("AWS_ACCESS_KEY_ID is not", self.error("unauthenticated", "check", ROOT))
        del self.env["AWS_SECRET_ACCESS_KEY"]
        self.assertIn("no credentials", self.error("unauthenticated", "check", ROOT))

    def test_credentials_from_a_file(self):
        with tempfile.NamedTemporaryFile("w") as f:
            f.write(f"# x\n[other]\naws_access_key_id=a\naws_secret_access_key=b\n\n[default]\n"
                    f"aws_access_key_id = {self.store.key}\r\n  aws_secret_access_key={self.store.secret}\n")
            f.flush()
            del self.env["AWS_ACCESS_KEY_ID"], self.env["AWS_SECRET_ACCESS_KEY"]
            self.env["AWS_SHARED_CREDENTIALS_FILE"] = f.name
            self.ok("write", f"{ROOT}/a", "x")
            self.env["AWS_PROFILE"] = "other"
            self.error("unauthenticated", "read", f"{ROOT}/a")
            self.env["AWS_PROFILE"] = "missing"
            self.assertIn("profile missing", self.error("unauthenticated", "read", f"{ROOT}/a"))

    def take_identity(self, token="eyJ.a+b/c.sig=", role="arn:aws:iam::1:role/training"):
        """No keys, but a file with a token that the store gives keys of a role for."""
        file = tempfile.NamedTemporaryFile("w")
        self.addCleanup(file.close)
        file.write(token + "\n")
        file.flush()
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            self.env.pop(name, None)
        self.env.update(AWS_WEB_IDENTITY_TOKEN_FILE=file.name, AWS_ROLE_ARN=role)
        self.store.identities = {token: role}
        return file.name

    def test_keys_for_a_web_identity(self):
        self.take_identity()
        self.ok("upload", f"{ROOT}/f", 5 * PART)  # several threads, one question
        self.assertEqual(len(self.store.given), 1)
        self.env["AWS_ROLE_SESSION_NAME"] = "of-this-pod"
        self.ok("download", f"{ROOT}/f", 5 * PART, PART)
        self.assertEqual(len(self.store.given), 2)
        self.env["AWS_ACCESS_KEY_ID"], self.env["AWS_SECRET_ACCESS_KEY"] = self.store.key, self.store.secret
        self.ok("look", f"{ROOT}/f")  # keys that are set come first
        self.assertEqual(len(self.store.given), 2)

    def test_a_web_identity_that_gets_nothing(self):
        path = self.take_identity()
        self.store.identities = {}
        answer = self.error("unauthenticated", "look", f"{ROOT}/a")
        for part in ("does not give us the role arn:aws:iam::1:role/training", "InvalidIdentityToken: the token is not"):
            self.assertIn(part, answer)
        self.assertNotIn("eyJ", answer)
        self.assertEqual(len(self.store.requests), 1)
        open(path, "w").close()
        self.assertIn("is empty", self.error("unauthenticated", "check", ROOT))
        self.env["AWS_WEB_IDENTITY_TOKEN_FILE"] = "/nonexistent/token"
        self.assertIn("/nonexistent/token", self.error("unauthenticated", "check", ROOT))
        self.env["AWS_ROLE_ARN"] = ""
        self.assertIn("AWS_ROLE_ARN is not", self.error("invalid", "check", ROOT))

    def test_a_token_service_in_trouble(self):
        self.take_identity()
        passes = self.store.fail("status", "POST", "^/$", times=2, status=503)
        broken = self.store.fail("hang-up", "POST", "^/$", times=1)
        self.ok("write", f"{ROOT}/a", "x")
        self.assertEqual((passes.hits, broken.hits), (2, 1))
        self.store.fail("status", "POST", "^/$", times=99, status=503)
        self.assertIn("after 4 attempts", self.error("unavailable", "read", f"{ROOT}/a"))
        self.store.faults.clear()
        self.env["AWS_ENDPOINT_URL_STS"] = "http://127.0.0.1:1"
        self.assertIn("127.0.0.1:1", self.error("unavailable", "read", f"{ROOT}/a"))

    def test_keys_are_renewed_before_they_end(self):
        self.take_identity()
        self.store.life = 3
        before = []

        def come_to_their_end():
            before.append(self.store.used)
            end = self.store.given[self.store.used][2]
            while time.time() < end:
                time.sleep(0.1)
        answer = self.change_while_open(come_to_their_end)
        self.assertEqual(answer.split()[0], "ok", answer)
        self.assertNotEqual(self.store.used, before[0])

    def test_keys_that_cannot_be_renewed_are_used_while_they_are_good(self):
        self.take_identity()
        self.store.life = 12
        for _ in range(5):
            del self.store.faults[:]

            def come_to_the_last_quarter():
                asked.append(self.store.fail("status", "POST", "^/$", times=99, status=503))
                end = self.store.given[self.store.used][2]
                while time.time() < end - 2:
                    time.sleep(0.1)
            asked = []
            answer = self.change_while_open(come_to_the_last_quarter)
            if answer.split()[0] == "ok" or time.time() < self.store.given[self.store.used][2]:
                break  # else a machine stood still until they had ended
        self.assertEqual(answer.split()[0], "ok", answer)
        self.assertGreater(asked[0].hits, 0)

    def test_a_bucket_that_does_not_exist_is_no_missing_file(self):
        for what in (("look",), ("read",), ("list",), ("write", "x"), ("claim", "x"), ("remove",), ("remove-tree",)):
            answer = self.error("state", what[0], "s3://nowhere/a", *what[1:])
            self.assertIn("the bucket does not exist", answer)

    def test_another_region(self):
        self.env["AWS_REGION"] = "us-east-1"
        self.assertIn("AWS_REGION", self.error("state", "look", f"{ROOT}/a"))

    def test_settings_and_locations(self):
        for location in ("s3://", "s3:///a", "s3://b/a", "s3://bucket/a//b", "s3://bucket/../a", "s3://bucket/./a",
                         "s3://buck et/a", "s3://bucket/" + "x" * 1025):
            self.error("invalid", "check", location)
        self.error("invalid", "read", "s3://bucket")
        for name, value in (("GRADUS_S3_ENDPOINT", "ftp://x"), ("GRADUS_S3_ENDPOINT", "http://x/y"),
                            ("GRADUS_S3_PATH_STYLE", "maybe"), ("GRADUS_S3_ATTEMPTS", "0"),
                            ("GRADUS_S3_STALL_SECONDS", "x"), ("GRADUS_S3_SIGN_PAYLOAD", "never"), ("AWS_REGION", "a b")):
            with self.subTest(name=name, value=value):
                was = self.env.get(name)
                self.env[name] = value
                self.assertIn(value, self.error("invalid", "check", ROOT))
                self.env[name] = was if was is not None else ""

    def change_while_open(self, change):
        self.ok("upload", f"{ROOT}/f", PART)
        process = subprocess.Popen([TOOL, "hold", f"{ROOT}/f"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env=self.env)
        self.assertEqual(process.stdout.readline(), "open\n")
        change()
        return process.communicate("go\n", timeout=120)[0]

    def test_an_object_that_is_removed_or_replaced_under_us(self):
        answer = self.change_while_open(self.store.buckets["bucket"].clear)
        self.assertTrue(answer.startswith("error not_found the file was removed"), answer)
        answer = self.change_while_open(
            lambda: self.store.buckets["bucket"].update({"root/f": (b"y" * PART, '"other"', "")}))
        self.assertTrue(answer.startswith("error corrupt the file was replaced"), answer)
        for data in (b"y" * (PART + 1), b"y" * (PART // 2)):  # of a store without entity tags
            self.store.tags = False
            answer = self.change_while_open(
                lambda data=data: self.store.buckets["bucket"].update({"root/f": (data, "", "")}))
            self.assertTrue(answer.startswith("error corrupt the file was replaced"), answer)

    def test_many_at_once(self):
        def work(i):
            self.ok("upload", f"{ROOT}/f{i}", PART + i)
            self.ok("download", f"{ROOT}/f{i}", PART + i, 3 << 20)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(len(self.store.keys()), 4)


PROCESSES = 6  # most of the time all of them wait


def main():
    """All tests, every sixth in one process; or those that are named."""
    if sys.argv[1:]:
        unittest.main(verbosity=2)
    names = sorted(t.id().removeprefix("__main__.") for t in unittest.defaultTestLoader.loadTestsFromTestCase(ObjectStoreTest))
    parts = [subprocess.Popen([sys.executable, "-B", __file__, TOOL, *names[i::PROCESSES]]) for i in range(PROCESSES)]
    sys.exit(max([part.wait() for part in parts], key=abs))


if __name__ == "__main__":
    main()
