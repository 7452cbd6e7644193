#!/usr/bin/env python3
"""Counts the house (issue 41): lines, files, rooms, circles, climbing imports, walks of rows.

    python house_count.py TREE            # TREE has inboxd/, pyproject.toml (a checkout)
    python house_count.py TREE --name expires_at          # files that name a word, by kind
    python house_count.py TREE --since 7d60730            # which lines are of files that were there then
    python house_count.py TREE --walks                    # prints the files of each walk

Only the standard library; nothing of the tree is imported or run.

Net lines: lines that are no docstring, no comment, no blank, no import. `house.md` counted the empty text behind
each file's last newline as a blank line, so its net is one a file lower (37,017 there = 37,492 here - 475 files);
both are printed, and targets of issue 41 are in house.md's way ("net").

A walk follows one parameter of one function through the code: the functions that get it (or a value that a call
made of it) as an argument, in the order of the text, each function once, calls resolved by annotations, attributes
and imports; it stops at doors that are only known at run time (callbacks, handlers). stays: how many times the walk
is in another file than before; rooms: different files; climbs: steps into a file of a higher layer (a return to a
caller is a step, too). The command's 21 rooms of house.md come out the same (its stays and climbs were counted by
another tool: 45 and 12 there, 73 and 20 here, at 7d60730); compare before and after with this one only.
"""
import argparse, ast, collections, pathlib, re, subprocess, sys, tomllib

# ------------------------------------------------------------------------------------------ lines
def kinds(text):
    """The kind of each line: code, doc, comment, import or blank."""
    lines = text.splitlines()
    kind = ["blank" if not l.strip() else "comment" if l.strip().startswith("#") else "code" for l in lines]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            kind[node.lineno - 1 : node.end_lineno] = ["import"] * (node.end_lineno - node.lineno + 1)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            b = node.body
            if b and isinstance(b[0], ast.Expr) and isinstance(b[0].value, ast.Constant) and isinstance(b[0].value.value, str):
                kind[b[0].lineno - 1 : b[0].end_lineno] = ["doc"] * (b[0].end_lineno - b[0].lineno + 1)
    return kind

APART = {  # brokers and screens are counted apart (issue 41, point 6)
    "brokers": re.compile(r"^(brokers/|events/relays/|inbound/messages/|features/brokers/)|^(registry/(relays|message_sources)"
                          r"|store/(relays|stream_positions|message_readers)|telemetry/(relays|messages|brokers)|settings/broker\w*"
                          r"|operations/messages|operations/doctor/(relays|messages)|cli/(messages|check_brokers|check_messages)"
                          r"|daemon/message_sources|model/message)\.py$"),
    "screens": re.compile(r"^(admin/screens/|features/screens/|pages/)"),
}

def files(root):
    return [p for p in sorted(root.rglob("*.py"))]

def room_of(rel):
    parts = rel.split("/")
    if parts[0] == "features" and len(parts) > 2:
        return "/".join(parts[:2])
    return parts[0] if len(parts) > 1 else "(top)"

def count(tree, since):
    root = tree / "inboxd"
    total, by_room, rooms, sizes, apart = collections.Counter(), collections.Counter(), collections.Counter(), {}, collections.Counter()
    for p in files(root):
        rel = str(p.relative_to(root)); text = p.read_text()
        k = collections.Counter(kinds(text)); total.update(k)
        sizes[rel] = len(text.splitlines()); rooms[room_of(rel)] += 1; by_room[room_of(rel)] += k["code"]
        name = next((n for n, pat in APART.items() if pat.search(rel)), "the rest")
        apart[name, "files"] += 1; apart[name, "net"] += k["code"] - 1
    n = len(sizes)
    print(f"files {n}; lines {sum(sizes.values())}: code {total['code']}, doc {total['doc']}, blank {total['blank']}, "
          f"import {total['import']}, comment {total['comment']}")
    print(f"net (as house.md counts) {total['code'] - n}; docstrings {total['doc']}")
    for name in ("the rest", "brokers", "screens"):
        print(f"  {name}: {apart[name, 'files']} files, net {apart[name, 'net']}")
    s = sorted(sizes.values())
    print(f"median {s[n // 2]}, p90 {s[n * 9 // 10]}, longest {s[-1]}; below 60 lines {sum(x < 60 for x in s)}; above 500 {sum(x > 500 for x in s)}")
    print("rooms: " + ", ".join(f"{r} {rooms[r]} files {c} net" for r, c in by_room.most_common()))
    sql = sorted(root.rglob("*.sql")); mig = sorted((tree / "migrations").rglob("*.sql"))
    print(f"SQL: {len(sql)} statements in {len({p.parent for p in sql})} folders, {len(mig)} files in migrations")
    tests = list((tree / "tests").rglob("*.py")) if (tree / "tests").exists() else []
    print(f"tests: {len(tests)} files, {sum(len(p.read_text().splitlines()) for p in tests)} lines")
    if since:
        names = subprocess.run(["git", "-C", str(tree), "diff", "--name-status", "-M40", "-l9000", since, "HEAD", "--", "inboxd"],
                               capture_output=True, text=True, check=True).stdout
        added = {l.split("\t")[-1][len("inboxd/"):] for l in names.splitlines() if l.startswith("A")}
        old = [rel for rel in sizes if rel not in added]
        code = sum(collections.Counter(kinds((root / rel).read_text()))["code"] for rel in old)
        print(f"of {since}: {len(old)} files, net {code - len(old)}; added since: {n - len(old)} files")

# ---------------------------------------------------------------------------------------- imports
def modules(root):
    found = {}
    for p in files(root):
        parts = list(p.relative_to(root.parent).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        found[".".join(parts)] = p
    return found

def imports(root):
    mods = modules(root); out = []
    for m, p in mods.items():
        def visit(node, lazy, typing):
            for ch in ast.iter_child_nodes(node):
                inner = lazy or isinstance(ch, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
                hidden = typing or (isinstance(ch, ast.If) and isinstance(ch.test, ast.Name) and ch.test.id == "TYPE_CHECKING")
                if isinstance(ch, ast.Import):
                    out.extend((m, a.name, lazy, typing) for a in ch.names if a.name in mods)
                elif isinstance(ch, ast.ImportFrom) and not ch.level and (ch.module or "").split(".")[0] == "inboxd":
                    for a in ch.names:
                        full = f"{ch.module}.{a.name}"
                        out.append((m, full if full in mods else ch.module, lazy, typing))
                visit(ch, inner, hidden)
        visit(ast.parse(p.read_text()), False, False)
    return mods, [e for e in out if e[1] in mods and e[0] != e[1]]

def layers(tree):
    contract = tomllib.loads((tree / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    level = {}
    for number, line in enumerate(contract["layers"]):
        for room in re.findall(r"\w+", line):
            level[room] = number
    return level

def house(tree):
    mods, edges = imports(tree / "inboxd"); level = layers(tree)
    of = lambda m: m.split(".")[1] if "." in m else ""
    pairs = {(a, b) for a, b, _, _ in edges}
    climbing = sorted((a, b) for a, b in pairs if of(a) in level and of(b) in level and of(a) != of(b) and level[of(b)] <= level[of(a)])
    siblings = sorted((a, b) for a, b in pairs if a.startswith("inboxd.features.") and b.startswith("inboxd.features.")
                      and a.split(".")[2] != b.split(".")[2])
    graph = collections.defaultdict(set)
    for a, b, lazy, typing in edges:
        if not (lazy or typing):
            graph[a].add(b)
    index, low, stack, on, rings, counter = {}, {}, [], set(), [], [0]
    sys.setrecursionlimit(100_000)
    def strong(v):
        index[v] = low[v] = counter[0]; counter[0] += 1; stack.append(v); on.add(v)
        for w in graph[v]:
            if w not in index:
                strong(w); low[v] = min(low[v], low[w])
            elif w in on:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            ring = []
            while True:
                w = stack.pop(); on.discard(w); ring.append(w)
                if w == v:
                    break
            if len(ring) > 1:
                rings.append(sorted(ring))
    for m in mods:
        if m not in index:
            strong(m)
    print(f"imports {len(pairs)} (pairs of files); climbing {len(climbing)}; between features {len(siblings)}; circles {len(rings)}")
    for each in (*climbing, *siblings, *rings):
        print("   ", *each)

# ------------------------------------------------------------------------------------------ walks
class Code:
    def __init__(self, root):
        self.trees = {m: ast.parse(p.read_text()) for m, p in modules(root).items()}
        self.names = {}
        for m, t in self.trees.items():
            d = {}
            for n in ast.walk(t):
                if isinstance(n, ast.ImportFrom) and (n.module or "").startswith("inboxd"):
                    for a in n.names:
                        full = f"{n.module}.{a.name}"
                        d.setdefault(a.asname or a.name, ("mod", full) if full in self.trees else ("from", n.module, a.name))
            for n in t.body:
                if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)): d[n.name] = ("def", m, n)
                if isinstance(n, ast.ClassDef): d[n.name] = ("class", m, n)
            self.names[m] = d
    def look(self, m, name, depth=0):
        r = self.names.get(m, {}).get(name)
        return self.look(r[1], r[2], depth + 1) if r and r[0] == "from" and depth < 6 else r
    def type_of(self, m, ann):
        if isinstance(ann, ast.Constant) and isinstance(ann.value, str):
            try: ann = ast.parse(ann.value, mode="eval").body
            except SyntaxError: return None
        if isinstance(ann, ast.BinOp): return self.type_of(m, ann.left) or self.type_of(m, ann.right)
        if isinstance(ann, ast.Subscript):
            plain = ast.unparse(ann.value).split(".")[-1] in ("Sequence", "list", "Iterable", "Iterator", "tuple", "set", "deque",
                "Mapping", "dict", "Collection", "AsyncIterator", "Annotated", "Final", "Callable")
            return None if plain else self.type_of(m, ann.value)
        if isinstance(ann, ast.Name):
            r = self.look(m, ann.id); return r if r and r[0] == "class" else None
        if isinstance(ann, ast.Attribute) and isinstance(ann.value, ast.Name):
            r = self.look(m, ann.value.id)
            if r and r[0] == "mod":
                r = self.look(r[1], ann.attr); return r if r and r[0] == "class" else None
        return None
    def bases(self, c):
        out = []
        for b in c[2].bases:
            if t := self.type_of(c[1], b): out += [t, *self.bases(t)]
        return out
    def method(self, c, name):
        for k in [c, *self.bases(c)]:
            for n in k[2].body:
                if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) and n.name == name: return ("def", k[1], n, k)
        return None
    def attribute(self, c, name):
        for k in [c, *self.bases(c)]:
            for n in k[2].body:
                if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name) and n.target.id == name: return self.type_of(k[1], n.annotation)
                if isinstance(n, ast.FunctionDef) and n.name == name and any("property" in ast.unparse(d) for d in n.decorator_list):
                    return self.type_of(k[1], n.returns)
            for f in k[2].body:
                if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    env = {a.arg: self.type_of(k[1], a.annotation) for a in f.args.posonlyargs + f.args.args + f.args.kwonlyargs} | {"self": k}
                    for n in ast.walk(f):
                        if isinstance(n, ast.AnnAssign) and ast.unparse(n.target) == f"self.{name}":
                            if t := self.type_of(k[1], n.annotation): return t
                        if isinstance(n, ast.Assign):
                            for x in n.targets:
                                if isinstance(x, ast.Attribute) and x.attr == name and isinstance(x.value, ast.Name) and x.value.id == "self":
                                    if t := self.of_expression(k[1], n.value, env): return t
        return None
    def of_expression(self, m, e, env):
        if isinstance(e, ast.Await): return self.of_expression(m, e.value, env)
        if isinstance(e, ast.Name): return env.get(e.id)
        if isinstance(e, ast.Attribute):
            t = self.of_expression(m, e.value, env); return self.attribute(t, e.attr) if t else None
        if isinstance(e, ast.Call):
            f = self.target(m, e.func, env)
            return None if not f else f if f[0] == "class" else self.type_of(f[1], f[2].returns)
        if isinstance(e, ast.BoolOp): return next((t for v in e.values if (t := self.of_expression(m, v, env))), None)
        if isinstance(e, ast.IfExp): return self.of_expression(m, e.body, env) or self.of_expression(m, e.orelse, env)
        return None
    def target(self, m, f, env):
        if isinstance(f, ast.Name):
            r = self.look(m, f.id); return r if r and r[0] in ("def", "class") else None
        if isinstance(f, ast.Attribute):
            if isinstance(f.value, ast.Name) and f.value.id not in env:
                r = self.look(m, f.value.id)
                if r and r[0] == "mod":
                    x = self.look(r[1], f.attr); return x if x and x[0] in ("def", "class") else None
                if r and r[0] == "class": return self.method(r, f.attr)
            if t := self.of_expression(m, f.value, env): return self.method(t, f.attr)
        return None

class Walk:
    def __init__(self, code): self.code, self.seen, self.under, self.way = code, set(), [], []
    def enter(self, m):
        if not self.way or self.way[-1] != m: self.way.append(m)
    def run(self, f, cls, given):
        m, fn = f[1], f[2]; place = (m, fn.lineno)
        if place in self.under or place in self.seen: return
        self.seen.add(place); self.under.append(place); self.enter(m)
        env = {a.arg: self.code.type_of(m, a.annotation) for a in fn.args.posonlyargs + fn.args.args + fn.args.kwonlyargs}
        if cls: env["self"] = cls
        held = set(given)
        def holds(e):
            if isinstance(e, ast.Name): return e.id in held
            if isinstance(e, (ast.Tuple, ast.List, ast.Set)): return any(map(holds, e.elts))
            if isinstance(e, (ast.Starred, ast.Await, ast.NamedExpr)): return holds(e.value)
            if isinstance(e, (ast.ListComp, ast.GeneratorExp, ast.SetComp)): return holds(e.elt)
            if isinstance(e, ast.Call): return any(map(holds, e.args))
            if isinstance(e, ast.IfExp): return holds(e.body) or holds(e.orelse)
            if isinstance(e, ast.BoolOp): return any(map(holds, e.values))
            if isinstance(e, ast.Subscript): return isinstance(e.value, ast.Name) and e.value.id in held and isinstance(e.slice, ast.Slice)
            return False
        def calls(node):
            for ch in ast.iter_child_nodes(node):
                if not isinstance(ch, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)): yield from calls(ch)
            if isinstance(node, ast.Call): yield node
        def do(e):
            for c in calls(e):
                to = self.code.target(m, c.func, env)
                args = [i for i, a in enumerate(c.args) if holds(a)]; words = [k.arg for k in c.keywords if k.arg and holds(k.value)]
                if not to or not (args or words): continue
                if to[0] == "class":
                    if init := self.code.method(to, "__init__"): self.call(init, to, args, words, 1, m)
                    continue
                method = len(to) > 3
                static = "staticmethod" in [ast.unparse(d) for d in to[2].decorator_list]
                self.call(to, to[3] if method else None, args, words, int(method and not static), m)
        def body(statements):
            for s in statements:
                if isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)): continue
                if isinstance(s, (ast.For, ast.AsyncFor)):
                    do(s.iter)
                    if holds(s.iter) or any(holds(a) for c in calls(s.iter) for a in c.args):
                        held.update(n.id for n in ast.walk(s.target) if isinstance(n, ast.Name))
                    body(s.body); body(s.orelse)
                elif isinstance(s, (ast.If, ast.While)): do(s.test); body(s.body); body(s.orelse)
                elif isinstance(s, (ast.With, ast.AsyncWith)):
                    for i in s.items:
                        do(i.context_expr)
                        if isinstance(i.optional_vars, ast.Name): env[i.optional_vars.id] = self.code.of_expression(m, i.context_expr, env)
                    body(s.body)
                elif isinstance(s, ast.Try):
                    body(s.body); [body(h.body) for h in s.handlers]; body(s.orelse); body(s.finalbody)
                elif isinstance(s, ast.Match): do(s.subject); [body(c.body) for c in s.cases]
                else:
                    do(s)
                    if isinstance(s, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and s.value is not None:
                        made = holds(s.value)
                        for x in s.targets if isinstance(s, ast.Assign) else [s.target]:
                            for n in ast.walk(x):
                                if isinstance(n, ast.Name):
                                    t = self.code.type_of(m, s.annotation) if isinstance(s, ast.AnnAssign) else self.code.of_expression(m, s.value, env)
                                    if t or n.id not in env: env[n.id] = t
                                    if made: held.add(n.id)
        body(fn.body); self.under.pop()
    def call(self, f, cls, args, words, skip, back):
        names = [a.arg for a in f[2].args.posonlyargs + f[2].args.args]
        given = {names[i + skip] if i + skip < len(names) else f[2].args.vararg.arg if f[2].args.vararg else "" for i in args} | {*words}
        given.discard("")
        if given: self.run(f, cls, given); self.enter(back)

# Each journey: places where it may begin (the first that exists counts): module:Class:function:parameter; a>b: b within a.
JOURNEYS = {
    "event": ["events.page_run:PageRun:run:rows"],
    "command": ["commands.run:CommandRun:run:row"],
    "batch member": ["store.batches::write:planned"],
    "webhook in": ["features.receiver.application:Receiver:take:body", "inbound.application:Receiver:take:body"],
    "webhook out": ["features.endpoints.delivery::declare>deliver_webhook:delivery", "outbound.endpoints.delivery::declare>deliver_webhook:delivery"],
}

def walks(tree, shown):
    code, level = Code(tree / "inboxd"), layers(tree)
    for name, places in JOURNEYS.items():
        for place in places:
            module, cls, function, parameter = place.split(":")
            m = f"inboxd.{module}"
            if m not in code.trees: continue
            outer, _, inner = function.partition(">")
            c = code.look(m, cls) if cls else None
            f = code.method(c, outer) if c else code.look(m, outer)
            if f and inner:
                nested = next((n for n in ast.walk(f[2]) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)) and n.name == inner), None)
                f = ("def", m, nested) if nested else None
            if not f: continue
            w = Walk(code); w.run(f, c, {parameter})
            at = lambda x: level.get(x.split(".")[1], 0)
            climbs = sum(at(b) < at(a) for a, b in zip(w.way, w.way[1:]))
            print(f"walk {name}: stays {len(w.way)}, rooms {len(set(w.way))}, climbs {climbs}, entries of {module} {w.way.count(m)}")
            if shown: print("   ", " ".join(x[7:] for x in w.way))
            break
        else:
            print(f"walk {name}: its beginning was not found: {places}")

def named(tree, word):
    found = collections.Counter(); paths = []
    listed = subprocess.run(["git", "-C", str(tree), "ls-files"], capture_output=True, text=True, check=True).stdout.split("\n")
    for rel in filter(None, listed):
        try: text = (tree / rel).read_text()
        except (UnicodeDecodeError, OSError): continue
        if re.search(rf"\b{word}\b", text):
            kind = ("tests" if rel.startswith("tests/") else "python" if rel.endswith(".py") else "sql" if rel.endswith(".sql") else "other")
            found[kind] += 1; paths.append(rel)
    print(f"{word}: {sum(found.values())} files: {dict(found)}"); print("   ", "\n    ".join(paths))

if __name__ == "__main__":
    parser = argparse.ArgumentParser(); parser.add_argument("tree", type=pathlib.Path); parser.add_argument("--since")
    parser.add_argument("--name"); parser.add_argument("--walks", action="store_true"); args = parser.parse_args()
    if args.name: named(args.tree, args.name)
    else:
        count(args.tree, args.since); house(args.tree); walks(args.tree, args.walks)
