"""Fetches a year of days with perfect knowledge of the API: it asks again at once after each failure, and never more often
than the API allows, by the API's own clock.

    python3 plain.py URL THREADS AMOUNT SECONDS     # AMOUNT 0: no limit
"""
import datetime, http.client, json, queue, sys, threading, time, urllib.parse

url, threads, amount, seconds = urllib.parse.urlsplit(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
days, records, used, lock = queue.Queue(), set(), {}, threading.Lock()
for i in range(365):
    days.put((datetime.date(2025, 1, 1) + datetime.timedelta(i)).isoformat())


def wait():
    while amount:
        window = int(time.time() / seconds)
        with lock:
            used[window] = used.get(window, 0) + 1
            if used[window] <= amount:
                return
        time.sleep(max((window + 1) * seconds - time.time(), 0) + 0.002)


def ask(connection, path):
    wait()
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        return json.loads(body) if answer.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError):
        connection.close()
        return None


def work():
    connection = http.client.HTTPConnection(url.netloc, timeout=30)
    while True:
        try:
            day = days.get_nowait()
        except queue.Empty:
            return
        page, more = 1, True
        while more:
            body = ask(connection, f"{url.path}?day={day}&page={page}")
            if body:
                with lock:
                    records.update(item["id"] for item in body["items"])
                page, more = page + 1, body["has_more"]


began = time.time()
workers = [threading.Thread(target=work) for _ in range(threads)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
print(f"{time.time() - began:.1f} {len(records)}")
