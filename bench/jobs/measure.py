"""Measures what a loader sends to the server beside this file: python3 measure.py DIR COMMAND.

In DIR it runs COMMAND from nothing, then where nothing has changed, then where 100 issues have,
and then from nothing with kill -9 after 60 requests and once more."""
import json, os, shutil, signal, sqlite3, subprocess, sys, time, urllib.request

AT = "http://127.0.0.1:8790"
def get(path): return urllib.request.urlopen(AT + path).read()
def stats(): return json.loads(get("/stats"))
def rows(d):
    try: return sqlite3.connect(d + "/github.db").execute("SELECT count(*), count(DISTINCT id) FROM issues").fetchone()
    except Exception as e: return str(e)

d, command = sys.argv[1], sys.argv[2:]
keep = {n: open(os.path.join(d, n), "rb").read() for n in os.listdir(d) if os.path.isfile(os.path.join(d, n)) and not n.startswith("github.db")}
env = dict(os.environ, HOME=os.path.abspath(d), DLT_DATA_DIR=os.path.abspath(d) + "/dlt")
def clean():
    shutil.rmtree(d); os.mkdir(d)
    for n, text in keep.items():
        open(os.path.join(d, n), "wb").write(text)
def start(): return subprocess.Popen(command, cwd=d, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, start_new_session=True)
def run(name):
    stats(); time.sleep(6); began = time.time(); code = start().wait()
    print(f"{name}: {stats()} rows {rows(d)} in {time.time()-began:.1f} s, status {code}", flush=True)

clean(); run("from nothing"); run("nothing changed"); get("/change?n=100"); run("100 issues changed")
clean(); stats(); time.sleep(6); p = start(); n = 0
while n < 60:
    time.sleep(0.05); n = json.loads(get("/count"))
os.killpg(p.pid, signal.SIGKILL); p.wait()
print(f"killed: {stats()} rows {rows(d)}", flush=True); run("after kill -9")
