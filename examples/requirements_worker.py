"""A package type in Python: packages of a folder of requirements. docs/carto.md tells its story.

NAME-VERSION.txt lists what that version needs, a line each: NAME with >=, <=, ==, !=, < and > as people write them, and
"; optional" behind it. Standard library only: python3 requirements_worker.py FOLDER [select] [resolve]
"""
import json, operator, os, re, sys, time, urllib.request

FOLDER, STEPS = sys.argv[1], sys.argv[2:] or ["select", "resolve"]
URL, TOKEN = os.environ.get("QUIPU_URL", "http://127.0.0.1:7700"), os.environ.get("QUIPU_TOKEN", "")
SLOW = float(os.environ.get("SLOW", "0"))  # seconds that a step takes longer
COMPARE = {">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt}
number = lambda version: [int(part) for part in version.split(".")]


def versions(name):
    """All that the folder has, the highest first."""
    found = (re.fullmatch(re.escape(name) + r"-([0-9.]+)\.txt", file) for file in os.listdir(FOLDER))
    return sorted((match.group(1) for match in found if match), key=number, reverse=True)


def satisfies(version, advice):
    return all(COMPARE[word](number(version), number(wanted)) for word, wanted in re.findall(r"([<>=!]+)\s*([0-9.]+)", advice))


def select(task):
    """target and advice -> one version"""
    target, advice = task["input"]["target"], task["input"].get("advice", "")
    name = target.split(":", 1)[1]
    known = versions(name)
    version = next((version for version in known if satisfies(version, advice)), None)
    if not known:
        return {"failure": "METADATA_MISSING", "message": "the folder has no '%s'" % name}
    if not version:
        return {"failure": "OVERCONSTRAINED_VERSION", "message": "no version of '%s' is %s" % (name, advice)}
    return {"selected": "%s@%s" % (target, version)}


def resolve(task):
    """a version -> what it needs"""
    kind, package = task["package"].split(":", 1)
    path = os.path.join(FOLDER, package.replace("@", "-") + ".txt")
    if not os.path.exists(path):
        return {"failure": "METADATA_MISSING", "message": "there is no file of '%s'" % package}
    relations = []
    for line in open(path):
        line, _, note = line.split("#")[0].partition(";")
        if line.strip():
            name, advice = re.fullmatch(r"([\w.-]+)\s*(.*)", line.strip()).groups()
            relations.append({"target": kind + ":" + name, "advice": advice, "optional": note.strip() == "optional"})
    return {"relations": relations}


def call(body):
    head = {"Content-Type": "application/json", "Authorization": "Bearer " + TOKEN}
    with urllib.request.urlopen(urllib.request.Request(URL + "/v1/work", json.dumps(body).encode(), head), timeout=60) as answer:
        return json.load(answer)


def failed(token, message):
    return {"token": token, "status": "error", "error": {"message": message, "fatal": True}}


def main():
    steps, results = {"carto.%s.req" % step: {"select": select, "resolve": resolve}[step] for step in STEPS}, []
    while True:
        try:
            answer = call({"worker": "req-%d" % os.getpid(), "topics": list(steps), "want": 1, "wait": "20s", "results": results})
        except OSError as error:  # the same results go again: a result counts once, however often it is sent
            if getattr(error, "code", 0) == 413:
                results = [failed(result["token"], "the answer is larger than a request may be") for result in results]
            time.sleep(0.2)
            continue
        results = [failed(ack["token"], ack["detail"]) for ack in answer["acks"] if ack["status"] == "refused"]
        for task in answer["tasks"]:
            time.sleep(SLOW)
            results.append({"token": task["token"], "output": steps[task["name"]](task)})


main()
