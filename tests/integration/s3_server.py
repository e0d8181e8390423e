# SPDX-License-Identifier: Apache-2.0
"""A small object store in memory that speaks S3, verifies every signature, and fails when it is told to.

It is a server of its own, written from the documents of S3 (Signature Version 4, ListObjectsV2, multipart uploads,
conditional writes), so what it accepts is not what our client happens to send."""

import datetime
import hashlib
import hmac
import http.server
import re
import socket
import ssl
import threading
import time
import urllib.parse
import xml.etree.ElementTree
from xml.sax.saxutils import escape

PART_BYTES_MIN = 5 << 20
PAGE = 3  # so that lists have several pages


class Refusal(Exception):
    def __init__(self, status, code, message="", **headers):
        super().__init__(code)
        self.status, self.code, self.message, self.headers = status, code, message, headers


class Fault:
    """What happens to the next requests that match."""

    def __init__(self, kind, method="", pattern="", times=1, **more):
        self.kind, self.method, self.pattern, self.left, self.more = kind, method, pattern, times, more
        self.hits = 0
        self.until = None

    def happens(self):
        """So many times; "come-again": to all who come within a second of the first."""
        if self.kind == "come-again":
            self.until = self.until or time.monotonic() + 1
            return time.monotonic() < self.until
        self.left -= 1
        return self.left >= 0


class Store:
    """Buckets and what the faults are; shared by the threads of the server."""

    def __init__(self, key="key:with-colon", secret="secret/+=", region="eu-test-1", tls=None):
        self.key, self.secret, self.region, self.token = key, secret, region, None
        self.buckets = {"bucket": {}}
        self.uploads = {}
        self.uploads_begun = 0
        self.faults = []
        self.requests = []
        self.lock = threading.RLock()
        self.tags = True  # False: answers have no entity tags
        self.identities = {}  # web identity token -> role that it may have
        self.life = 3600  # of what is given for one, in seconds
        self.given = {}  # key -> secret, session token, end
        self.used = None  # the last of them that a request was signed with
        self.unsigned = 0  # requests whose body is not under their signature
        self.tls = tls  # files of certificate and key: it speaks https
        self.server = None

    def __enter__(self):
        store = self

        class Handler(RequestHandler):
            pass
        Handler.store = store
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if self.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.tls)
            self.server.handle_error = lambda *_: None  # of handshakes that are meant to fail
            # The handshake is that of the first read, by the connection's own thread.
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.endpoint = f"{'https' if self.tls else 'http'}://127.0.0.1:{self.server.server_address[1]}"
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def environment(self):
        return {"GRADUS_S3_ENDPOINT": self.endpoint, "AWS_ACCESS_KEY_ID": self.key,
                "AWS_SECRET_ACCESS_KEY": self.secret, "AWS_REGION": self.region}

    def give(self, token, role):
        """AssumeRoleWithWebIdentity: a key of its own for each call."""
        with self.lock:
            if token not in self.identities:
                raise Refusal(400, "InvalidIdentityToken", "the token is not known")
            if self.identities[token] != role:
                raise Refusal(403, "AccessDenied", f"not authorized to assume {role}")
            key, until = f"GIVEN{len(self.given)}", time.time() + self.life
            self.given[key] = (f"secret {key}/+", f"session {key}+/=", until)
            return key, *self.given[key]

    def who(self, key):
        """Secret and session token."""
        with self.lock:
            if key == self.key:
                return self.secret, self.token
            if key not in self.given:
                raise Refusal(403, "InvalidAccessKeyId")
            secret, token, until = self.given[key]
            if time.time() >= until + 60:  # a machine may stand still while a request is under way
                raise Refusal(400, "ExpiredToken")
            self.used = key
            return secret, token

    def fail(self, kind, method="", pattern="", times=1, **more):
        fault = Fault(kind, method, pattern, times, **more)
        with self.lock:
            self.faults.append(fault)
        return fault

    def fault(self, method, path, kinds):
        with self.lock:
            for f in self.faults:
                if f.kind in kinds and f.method in ("", method) and re.search(f.pattern, path) and f.happens():
                    f.hits += 1
                    return f
        return None

    def keys(self, bucket="bucket"):
        with self.lock:
            return sorted(self.buckets[bucket])


class RequestHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store = None

    def log_message(self, *_):
        pass

    # ---- answers ----

    def answer(self, status, body=b"", **headers):
        cut = self.store.fault(self.command, self.path, ("cut-answer",))
        slow = self.store.fault(self.command, self.path, ("slow-answer",))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if cut:
            self.wfile.write(body[:len(body) // 2])
            self.hang_up()
        elif slow:
            for at in range(0, len(body), max(1, len(body) // 8)):
                self.wfile.write(body[at:at + max(1, len(body) // 8)])
                self.wfile.flush()
                time.sleep(slow.more.get("pause", 0.4))
        else:
            self.wfile.write(body)

    def hang_up(self):
        self.close_connection = True
        try:
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def refuse(self, r, by_sts=False):
        body = f"<Error><Code>{r.code}</Code><Message>{escape(r.message)}</Message></Error>"
        if by_sts:
            body = f"<ErrorResponse><Error><Type>Sender</Type>{body[7:]}<RequestId>1</RequestId></ErrorResponse>"
        body = "<?xml version='1.0'?>" + body
        self.answer(r.status, body.encode(), **r.headers)

    # ---- requests ----

    def read_body(self):
        length = int(self.headers.get("Content-Length", 0))
        if length and self.store.fault(self.command, self.path, ("cut-request",)):
            self.rfile.read(length // 2)
            self.hang_up()
            return None
        return self.rfile.read(length)

    def handle_any(self):
        self.store.requests.append((self.command, self.path))
        stall = self.store.fault(self.command, self.path, ("stall",))
        if stall:
            time.sleep(stall.more.get("seconds", 3))
        body = self.read_body()
        if body is None:
            return
        try:
            if self.store.fault(self.command, self.path, ("hang-up",)):
                self.hang_up()
                return
            f = self.store.fault(self.command, self.path, ("status", "come-again"))
            if f:
                headers = {"Retry_After": "1"} if f.kind == "come-again" else {}
                raise Refusal(f.more["status"], f.more.get("code", "Trouble"), "as told", **headers)
            if self.command == "POST" and self.path == "/":
                self.give(body)
                return
            self.verify(body)
            if self.store.fault(self.command, self.path, ("lost-answer",)):
                self.answer = lambda *a, **k: self.hang_up()
            self.act(body)
            self.__dict__.pop("answer", None)
        except Refusal as r:
            self.refuse(r, self.path == "/")
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

    # ---- the token service ----

    def give(self, body):
        if self.headers.get("Content-Type") != "application/x-www-form-urlencoded" or "Authorization" in self.headers:
            raise Refusal(400, "InvalidAction")
        form = dict(urllib.parse.parse_qsl(body.decode(), strict_parsing=True))
        if (form["Action"], form["Version"]) != ("AssumeRoleWithWebIdentity", "2011-06-15"):
            raise Refusal(400, "InvalidAction")
        if not re.fullmatch(r"[\w+=,.@-]{2,64}", form["RoleSessionName"]):
            raise Refusal(400, "ValidationError", "RoleSessionName")
        key, secret, token, until = self.store.give(form["WebIdentityToken"], form["RoleArn"])
        end = datetime.datetime.fromtimestamp(until, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self.answer(200, ('<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">'
                          "<AssumeRoleWithWebIdentityResult><SubjectFromWebIdentityToken>x</SubjectFromWebIdentityToken>"
                          f"<Credentials><SessionToken>{token}</SessionToken><SecretAccessKey>{secret}</SecretAccessKey>"
                          f"<Expiration>{end}</Expiration><AccessKeyId>{key}</AccessKeyId></Credentials>"
                          "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>").encode())

    # ---- Signature Version 4 ----

    def verify(self, body):
        s = self.store
        given = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=(.+)/(\d{8})/([^/]+)/s3/aws4_request, *"
                             r"SignedHeaders=([^,]+), *Signature=([0-9a-f]{64})", self.headers.get("Authorization", ""))
        if not given:
            raise Refusal(403, "AccessDenied", "no signature")
        key, day, region, names, signature = given.groups()
        secret, session = s.who(key)
        if region != s.region:
            raise Refusal(400, "AuthorizationHeaderMalformed", f"expecting {s.region}")
        stamp = self.headers["X-Amz-Date"]
        then = datetime.datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
        if abs((datetime.datetime.now(datetime.timezone.utc) - then).total_seconds()) > 900 or stamp[:8] != day:
            raise Refusal(403, "RequestTimeTooSkewed")
        content = self.headers.get("X-Amz-Content-Sha256")
        if content is None:
            raise Refusal(400, "InvalidRequest", "missing x-amz-content-sha256")
        if content == "UNSIGNED-PAYLOAD":
            with s.lock:
                s.unsigned += 1
        elif content != hashlib.sha256(body).hexdigest():
            raise Refusal(400, "XAmzContentSHA256Mismatch")
        signed = names.split(";")
        for name in self.headers.keys():
            if name.lower().startswith("x-amz-") and name.lower() not in signed:
                raise Refusal(403, "AccessDenied", f"{name} is not signed")
        if "host" not in signed or signed != sorted(signed):
            raise Refusal(403, "AccessDenied", "signed headers")
        path, _, query = self.path.partition("?")
        query = "&".join(sorted(p if "=" in p else p + "=" for p in query.split("&"))) if query else ""
        canonical = "\n".join([self.command, urllib.parse.quote(urllib.parse.unquote(path), safe="/-_.~"), query]
                              + [f"{n}:{' '.join(self.headers.get(n, '').split())}" for n in signed]
                              + ["", names, content])
        scope = f"{day}/{region}/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        k = ("AWS4" + secret).encode()
        for part in (day, region, "s3", "aws4_request"):
            k = hmac.new(k, part.encode(), hashlib.sha256).digest()
        if not hmac.compare_digest(hmac.new(k, text.encode(), hashlib.sha256).hexdigest(), signature):
            raise Refusal(403, "SignatureDoesNotMatch")
        if session is not None and self.headers.get("X-Amz-Security-Token") != session:
            raise Refusal(400, "ExpiredToken")

    # ---- the store ----

    def act(self, body):
        """What is done is done under the lock; the answer is sent behind it, so that a slow one holds up nobody."""
        answers, send = [], self.answer
        self.answer = lambda *args, **more: answers.append((args, more))
        try:
            with self.store.lock:
                self.carry_out(body)
        finally:
            self.answer = send
        for args, more in answers:
            send(*args, **more)

    def carry_out(self, body):
        path, _, query = self.path.partition("?")
        _, bucket, *key = path.split("/", 2)
        key = urllib.parse.unquote(key[0]) if key else ""
        query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        if bucket not in self.store.buckets:
            raise Refusal(404, "NoSuchBucket")
        objects = self.store.buckets[bucket]
        if not key:
            self.list_uploads(bucket, query) if "uploads" in query else self.list(objects, query)
        elif self.command == "GET":
            self.get(objects, key)
        elif self.command == "DELETE" and "uploadId" in query:
            self.upload_of(bucket, key, query)
            del self.store.uploads[query["uploadId"]]
            self.answer(204)
        elif self.command == "DELETE":
            objects.pop(key, None)
            self.answer(204)
        elif "uploads" in query:
            self.begin(bucket, key)
        elif self.command == "POST":
            self.complete(objects, bucket, key, query, body)
        elif "uploadId" in query:
            parts = self.upload_of(bucket, key, query)["parts"]
            tag = f'"{hashlib.md5(body).hexdigest()}"'
            parts[int(query["partNumber"])] = (tag, body)
            self.answer(200, ETag=tag)
        else:
            self.put(objects, key, body)

    def put(self, objects, key, body):
        if self.headers.get("If-None-Match") == "*" and key in objects:
            raise Refusal(412, "PreconditionFailed")
        tag = f'"{hashlib.md5(body).hexdigest()}"'
        objects[key] = (body, tag, self.headers.get("X-Amz-Meta-Gradus-Nonce", ""))
        self.answer(200, ETag=tag)

    def get(self, objects, key):
        if key not in objects:
            raise Refusal(404, "NoSuchKey")
        data, tag, nonce = objects[key]
        if self.headers.get("If-Match", tag) != tag:
            raise Refusal(412, "PreconditionFailed")
        headers = {"ETag": tag} if self.store.tags else {}
        if nonce:
            headers["x_amz_meta_gradus_nonce"] = nonce
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not asked:
            self.answer(200, data, **headers)
            return
        first, last = int(asked[1]), min(int(asked[2]), len(data) - 1)
        if first >= len(data):
            raise Refusal(416, "InvalidRange", Content_Range=f"bytes */{len(data)}")
        self.answer(206, data[first:last + 1], Content_Range=f"bytes {first}-{last}/{len(data)}", **headers)

    def list(self, objects, query):
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        names = []
        for key in sorted(k for k in objects if k.startswith(prefix)):
            end = key.find(delimiter, len(prefix)) if delimiter else -1
            name = ("CommonPrefixes", "Prefix", key[:end + 1]) if end >= 0 else ("Contents", "Key", key)
            if name not in names:
                names.append(name)
        names = [n for n in names if n[2] > query.get("continuation-token", "")]
        page = names[:min(PAGE, int(query.get("max-keys", 1000)))]
        more = len(names) > len(page)
        text = "".join(f"<{a}><{b}>{escape(c)}</{b}></{a}>" for a, b, c in page)
        token = f"<NextContinuationToken>{escape(page[-1][2])}</NextContinuationToken>" if more else ""
        self.answer(200, ('<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
                          f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{text}</ListBucketResult>").encode())

    def list_uploads(self, bucket, query):
        found = sorted((u["key"], i) for i, u in self.store.uploads.items()
                       if u["bucket"] == bucket and u["key"].startswith(query.get("prefix", "")))
        text = "".join(f"<Upload><Key>{escape(k)}</Key><UploadId>{i}</UploadId></Upload>" for k, i in found)
        self.answer(200, f"<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>{text}"
                         "</ListMultipartUploadsResult>".encode())

    def upload_of(self, bucket, key, query):
        upload = self.store.uploads.get(query["uploadId"])
        if upload is None or upload["bucket"] != bucket or upload["key"] != key:
            raise Refusal(404, "NoSuchUpload")
        return upload

    def begin(self, bucket, key):
        self.store.uploads_begun += 1
        number = f"upload+{self.store.uploads_begun}/="
        self.store.uploads[number] = {"bucket": bucket, "key": key, "parts": {},
                                      "nonce": self.headers.get("X-Amz-Meta-Gradus-Nonce", "")}
        self.answer(200, f"<InitiateMultipartUploadResult><UploadId>{number}</UploadId>"
                         "</InitiateMultipartUploadResult>".encode())

    def complete(self, objects, bucket, key, query, body):
        upload = self.upload_of(bucket, key, query)
        if self.store.fault(self.command, self.path, ("late-error",)):  # after 200 was sent, as S3 may do
            self.answer(200, b"<Error><Code>InternalError</Code><Message>late</Message></Error>")
            return
        root = xml.etree.ElementTree.fromstring(body)
        named = [(int(p.find("PartNumber").text), p.find("ETag").text) for p in root.findall("Part")]
        parts = upload["parts"]
        if [n for n, _ in named] != sorted(parts) or any(parts[n][0] != tag for n, tag in named):
            raise Refusal(400, "InvalidPart")
        if any(len(parts[n][1]) < PART_BYTES_MIN for n, _ in named[:-1]):
            raise Refusal(400, "EntityTooSmall")
        data = b"".join(parts[n][1] for n, _ in named)
        tag = f'"{hashlib.md5(data).hexdigest()}-{len(named)}"'
        objects[key] = (data, tag, upload["nonce"])
        del self.store.uploads[query["uploadId"]]
        self.answer(200, f"<CompleteMultipartUploadResult><ETag>{escape(tag)}</ETag>"
                         "</CompleteMultipartUploadResult>".encode())
