"""A worker for flows and activities of Quipu: Python 3.9, standard library only. docs/workers.md explains the protocol.
A flow is a generator: it yields the steps that it waits for, one or a list, and gets what came of them. It runs again
from the top over its history, so it does the same for the same history; everything else belongs into activities."""
import contextlib, json, os, signal, sys, threading, time, traceback, urllib.parse, urllib.request

URL, TOKEN = os.environ.get("QUIPU_URL", "http://127.0.0.1:7700"), os.environ.get("QUIPU_TOKEN")
flows, activities = {}, {}        # name: generator function(ctx, input); name: function(input, task)
class Failed(Exception): pass     # an activity or a child has failed for good; args[0] is its error
class Fatal(Failed): pass         # raised by a flow or an activity: it fails, and is not tried again
class Stopped(Exception): pass    # history and code do not fit; args[0] is the result that says so
text = lambda place: "{%s}" % ".".join(map(str, place))                    # (1, 0, 1) -> "{1.0.1}"
only = lambda event, *keys: {key: event[key] for key in keys if event.get(key) is not None}
def between(prev, cur):           # where a step that was added later stands
    if len(prev) >= len(cur):
        return prev[:-1] + (prev[-1] + 1,) if len(prev) > len(cur) else prev + (1,)
    zeros = next(i for i, ordinate in enumerate(cur[len(prev):]) if ordinate) if cur[:len(prev)] == prev else 0
    return prev + (0,) * (zeros + 1) + (1,)
class Context:                    # what a flow's code calls: a call is a step; `v` is the version of the code that added it
    def __init__(self, task):
        self.events = [dict(e, place=tuple(map(int, e["loc"].strip("{}").split(".")))) for e in task["log"]
                       if "loc" in e]
        end = next((e for e in task["log"] if e["op"] == "cancel"), {})      # asked to end: thrown once, at one of these
        self.landings = [e["place"] for e in self.events if end and not e.get("shield") and
                         (e["loc"] == end["thrown"] if "thrown" in end else e.get("done", end["done"]) >= end["done"])]
        self.unfed = sorted((e for e in self.events if "done" in e), key=lambda e: e["done"])
        self.fed, self.commands, self.index, self.last, self.looked, self.thrown = {}, [], 0, (0,), False, None
        self.now, self.properties = task["started_at"], {}   # milliseconds, of the last event that was fed; what people see
    def here(self): return self.events[self.index] if self.index < len(self.events) else None
    def move(self):
        self.last, self.index, self.looked = self.here()["place"], self.index + 1, False
        return self.last
    def free(self): return between(self.last, self.here()["place"]) if self.here() else (self.last[0] + 1,)
    def is_new(self, place): return bool(self.commands) and self.commands[-1]["loc"] == text(place)
    def step(self, op, name, v=1, kind=None, of=None, **command):
        here, code = self.here(), only({"op": kind or op, "name": name, "v": v, "of": of}, "op", "name", "v", "of")
        if here and only(here, "op", "name", "v", "of") == code:
            return self.move()
        if here and v <= here["v"]:
            raise Stopped({"status": "diverged", "at": here["loc"], "code": code,
                           "history": only(here, "op", "name", "v", "of")})
        if here and self.looked:
            raise RuntimeError("insertion_refused: a step stands directly behind a version check, at " + here["loc"])
        self.last = self.free()
        self.commands.append({**code, "op": op, "loc": text(self.last), **command})
        op == "child" and self.commands[-1].update(workflow=self.commands[-1].pop("name"))
        return self.last
    def activity(self, name, input=None, v=1, **more):   # more: retry, timeout, start_timeout, heartbeat, limit_key, shield
        return self.step("activity", name, v, input=input, **more)
    def child(self, workflow, input=None, v=1, **more): return self.step("child", workflow, v, input=input, **more)
    def sleep(self, seconds, v=1): return self.step("sleep", None, v, until=self.now + int(seconds * 1000))
    def run(self, name, function, v=1):                  # code that runs here, once: its result is recorded
        return (self.commands[-1].setdefault("ok", function()) if self.is_new(self.step("run", name, v))
                else self.events[self.index - 1]["ok"])
    def listen(self, *names, timeout=None, v=1):         # yield from ctx.listen(..): a signal; None: the time is over
        if timeout is None:
            return (yield self.step("listen", None, v, "signals", names=names))[0]
        place = self.step("listen", None, v, "sleep", names=names, until=self.now + int(timeout * 1000))
        if self.is_new(place):
            self.commands[-1]["got"] = text(self.free())
        if not (yield place)["interrupted"]:
            return None
        self.move()
        return self.events[self.index - 1]["ok"][0]
    def removed(self, op, name, v=1):                    # in place of a step that the code no longer has
        here = self.here()
        if here and only(here, "op", "name", "v") == only({"op": op, "name": name, "v": v}, "op", "name", "v"):
            self.move()
        elif not here or (here["op"], here.get("of"), here.get("name"), here["v"]) == ("removed", op, name, v):
            self.step("mark", name, v, "removed", op, mark="removed")
    def check_version(self, latest):                     # which version of the code this flow goes by
        here = self.here()
        if not here or here["op"] == "version":
            self.step("mark", None, here["v"] if here else latest, "version", mark="version")
        self.looked = bool(here) and here["op"] != "version"
        return here["v"] if here else latest
    def drive(self, code):           # runs the flow until it waits for what has not come; feeds answers in their order
        send, value = code.send, None
        while True:
            waits = send(value)
            steps = waits if isinstance(waits, list) else [waits]
            landing = next((place for place in steps if place in self.landings), None)
            if landing:
                send, value, self.thrown, self.landings = code.throw, Failed({"code": 499}), text(landing), []
                continue
            while any(place not in self.fed for place in steps):
                if not self.unfed:
                    return sum(place not in self.fed for place in steps)
                event = self.unfed.pop(0)
                self.fed[event["place"]], self.now = event, event["at"]
            failed = [self.fed[place] for place in steps if "error" in self.fed[place]]
            results = [self.fed[place].get("ok") for place in steps]
            send, value = ((code.throw, Failed(min(failed, key=lambda e: e["done"])["error"])) if failed else
                           (code.send, results if isinstance(waits, list) else results[0]))
def decide(task):
    while task.get("more"):                              # a long history comes in pages
        page = call("GET", "/v1/jobs/%s/log?cursor=%s" % (urllib.parse.quote(task["job"]), task["more"]))
        task["log"], task["more"] = task["log"] + page["log"], page.get("more")
    ctx, after, end = Context(task), 1, []
    try:
        after = ctx.drive(flows[task["workflow"]](ctx, task["input"]))
    except StopIteration as returned:
        end = [{"op": "return", "output": returned.value}]
    except Failed as failed:
        error = failed.args[0]
        end = [{"op": "fail", "error": error if isinstance(error, dict) else {"code": 500, "message": str(error)}}]
    if end and ctx.here() and not ctx.thrown:
        left = [only(e, "loc", "op", "name", "v", "of") for e in ctx.events[ctx.index:]]
        raise Stopped({"status": "latent", "at": "{}", "left": left})
    sets = [{"op": "set", "properties": ctx.properties}] if ctx.properties else []
    return {"base": task["base"], "commands": ctx.commands + sets + end, "after": after, **only({"thrown": ctx.thrown}, "thrown")}
def work(task):
    try:
        result = decide(task) if task["kind"] == "flow" else {"output": activities[task["name"]](task["input"], task)}
    except Stopped as stopped:
        result = stopped.args[0]
    except Exception as error:
        result = {"status": "error", "error": {"message": repr(error), "stack": traceback.format_exc()[-2000:],
                                               "fatal": isinstance(error, Fatal)}}
    return {"token": task["token"], **result}
def call(method, path, body=None):
    head = {"Content-Type": "application/json", **({"Authorization": "Bearer " + TOKEN} if TOKEN else {})}
    request = urllib.request.Request(URL + path, body and json.dumps(body).encode(), head, method=method)
    with urllib.request.urlopen(request, timeout=90) as answer:
        return json.load(answer)
def main(worker, build=None):
    base, in_hand, results, ends = {"worker": worker, **({"build": build} if build else {})}, [], [], threading.Event()
    def beat():                                          # a task is leased for 30 s: one that takes longer says so
        while not ends.wait(10):
            with contextlib.suppress(OSError, ValueError):   # the next one may get through
                in_hand and call("POST", "/v1/work", {**base, "beats": [{"token": token} for token in in_hand]})
    threading.Thread(target=beat, daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: ends.set())
    serves = {"topics": list(activities), "flows": [{"name": name} for name in flows], "wait": "20s"}
    while not ends.is_set():
        try:
            answer = call("POST", "/v1/work", {**base, **serves, "results": results})
        except (OSError, ValueError) as error:           # a result counts once, however often it is sent
            code = getattr(error, "code", 503)
            if code < 500 and code not in (413, 429):
                sys.exit("%d %s" % (code, error.read().decode()))
            if code == 413:
                results = [{"token": r["token"], "status": "error", "error": "too large"} for r in results]
            time.sleep(1); continue
        results = [{"token": ack["token"], "status": "error", "error": {"fatal": True, "message": str(ack)}}
                   for ack in answer["acks"] if ack["status"] == "refused"]
        for task in answer["tasks"]:
            in_hand.append(task["token"])
            results.append(work(task))
            in_hand.clear()
    call("POST", "/v1/work", {**base, "results": results, "leave": True})
