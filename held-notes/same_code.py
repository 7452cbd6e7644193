"""Compare Python files of a worktree with a commit: ASTs without docstrings; print differing strings and names."""
import ast,subprocess,sys,difflib
base,tree=sys.argv[1:3]
files=subprocess.run(["git","-C",tree,"diff","--name-only",base,"--","*.py"],capture_output=True,text=True,check=True).stdout.split()
def dump(t):
    m=ast.parse(t)
    for n in ast.walk(m):
        if isinstance(n,(ast.Module,ast.ClassDef,ast.FunctionDef,ast.AsyncFunctionDef)) and n.body and isinstance(n.body[0],ast.Expr) and isinstance(n.body[0].value,ast.Constant) and isinstance(n.body[0].value.value,str):
            n.body=n.body[1:] or [ast.Pass()]
    return ast.unparse(m).splitlines()
for f in files:
    try: a=subprocess.run(["git","-C",tree,"show",f"{base}:{f}"],capture_output=True,text=True,check=True).stdout
    except subprocess.CalledProcessError: print("NEW",f); continue
    try: b=open(f"{tree}/{f}").read()
    except FileNotFoundError: print("GONE",f); continue
    d=[l for l in difflib.unified_diff(dump(a),dump(b),lineterm="",n=0) if l[:1] in "+-" and l[:3] not in ("+++","---")]
    if d: print("==",f); print("\n".join(d))
