package clients

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// browserPage uses what browsers do beyond requests: a service worker, a websocket, and events of the
// server, each of which is sent after the page has told that it has the one before.
const browserPage = `<!DOCTYPE html><title>begun</title><link rel="icon" href="data:,"><a id="download" href="/download">file</a><script>
const text = async (path) => {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(path + " " + answer.status);
  return answer.text();
};
const items = Promise.all(Array.from({ length: 12 }, (_, n) => text("/item/" + n)));
const worker = (async () => {
  if (location.search === "?alone") return "none";
  await navigator.serviceWorker.register("/worker.js");
  await navigator.serviceWorker.ready;
  if (!navigator.serviceWorker.controller) await new Promise((then) => navigator.serviceWorker.addEventListener("controllerchange", then));
  return text("/by-worker");
})();
const socket = new Promise((then, failed) => {
  const it = new WebSocket("wss://" + location.host + "/socket");
  it.onopen = () => it.send("hello");
  it.onerror = () => failed(new Error("the websocket failed"));
  it.onmessage = ({ data }) => { it.close(); then(data); };
});
const events = new Promise((then, failed) => {
  const it = new EventSource("/events"), seen = [];
  it.onerror = () => failed(new Error("the events failed"));
  it.onmessage = ({ data }) => {
    seen.push(data);
    if (seen.length === 3) { it.close(); then(seen.join("+")); }
    text("/seen/" + data).catch(failed);
  };
});
Promise.all([items, worker, socket, events]).then(
  ([items, worker, socket, events]) => { document.title = ["complete", items.length, worker, socket, events].join(" "); },
  (error) => { document.title = "failed " + error.message; },
);
</script>`

const browserWorker = `addEventListener("activate", (event) => event.waitUntil(clients.claim()));
addEventListener("fetch", (event) => {
  if (new URL(event.request.url).pathname === "/by-worker") event.respondWith(fetch("/for-worker"));
});`

// browserSite is a site of browserPage that allows ten requests in a second, and says so.
type browserSite struct {
	*origin
	seenEvents chan string

	mu      sync.Mutex
	began   time.Time // of the second
	used    int
	refused int
}

func startBrowserSite(t *testing.T) *browserSite {
	t.Helper()
	s := &browserSite{seenEvents: make(chan string, 16)}
	s.origin = startOriginThat(t, s.answer)
	return s
}

// admits counts a request, and refuses it where there are too many.
func (s *browserSite) admits(w http.ResponseWriter) bool {
	const allowed = 10
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.began) >= time.Second {
		s.began, s.used = now, 0
	}
	s.used++
	w.Header().Set("X-RateLimit-Limit", strconv.Itoa(allowed))
	w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(max(allowed-s.used, 0)))
	w.Header().Set("X-RateLimit-Reset", "1")
	if s.used <= allowed {
		return true
	}
	s.refused++
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusTooManyRequests)
	return false
}

func (s *browserSite) answer(w http.ResponseWriter, r *http.Request) {
	if !s.admits(w) {
		return
	}
	switch path := r.URL.Path; path {
	case "/page":
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, browserPage)
	case "/worker.js":
		w.Header().Set("Content-Type", "text/javascript")
		fmt.Fprint(w, browserWorker)
	case "/socket":
		echoOnce(w, r)
	case "/events":
		w.Header().Set("Content-Type", "text/event-stream")
		for n := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", n)
			_ = http.NewResponseController(w).Flush() // the client may have left
			select {
			case <-s.seenEvents:
			case <-r.Context().Done():
				return
			}
		}
		<-r.Context().Done() // the page closes it
	case "/download":
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Disposition", "attachment; filename=file.bin")
		fmt.Fprint(w, bigAnswer)
	default:
		if event, ok := strings.CutPrefix(path, "/seen/"); ok {
			select {
			case s.seenEvents <- event:
			default:
			}
		}
		fmt.Fprint(w, path)
	}
}

// echoOnce accepts a websocket and sends the first short message back.
func echoOnce(w http.ResponseWriter, r *http.Request) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	key := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(key[:]))
	if message, err := readMessage(buffered.Reader); err == nil {
		_, _ = conn.Write(append([]byte{0x81, byte(len(message))}, message...)) // the client may have left
	}
	_, _ = io.Copy(io.Discard, buffered) // until it closes
}

// readMessage reads a masked message of fewer than 126 bytes.
func readMessage(from *bufio.Reader) ([]byte, error) {
	head := make([]byte, 6)
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	message := make([]byte, head[1]&0x7f)
	_, err := io.ReadFull(from, message)
	for i := range message {
		message[i] ^= head[2+i%4]
	}
	return message, err
}

// browsers are clients that drive a real Chromium: with "ignore" it ignores certificates, else it
// trusts the CA by abide run --browsers.
func browsers(options ...string) (all []client) {
	for _, one := range [][2]string{{"playwright", "playwright"}, {"puppeteer", "puppeteer-core"}, {"selenium", "selenium-webdriver"}, {"crawlee", "@crawlee/playwright"}} {
		item := client{name: "Chromium", command: script(node, "browser_client.mjs"), needs: one[1]}
		all = append(all, onNode(&item, nodeVersions[len(nodeVersions)-1:], append([]string{one[0]}, options...)...)...)
	}
	return all
}

// browsesUnderRun has a client load browserPage under abide run with these flags.
func (c *client) browsesUnderRun(t *testing.T, flags ...string) {
	t.Helper()
	s := startBrowserSite(t)
	args := append(append([]string{"run"}, flags...), "--")
	args = append(append(args, c.command...), append([]string{"http://" + exampleHost, "https://" + exampleHost}, c.options...)...)
	got := run(t, append(s.environ(), "ABIDE_LOG_LEVEL=info"), abideBinary, args...)
	worker := "/for-worker"
	if slices.Equal(c.options, []string{"playwright", "ignore"}) {
		worker = "none"
	}
	if want := "complete 12 " + worker + " hello 0+1+2\n" + sum(bigAnswer) + "\n"; got != want {
		t.Errorf("the browser found %q, not %q", got, want)
	}
	if s.refused > 0 {
		t.Errorf("the site refused %d requests", s.refused)
	}
	for _, r := range s.requests() {
		if r.Host == exampleHost && r.URI != "/socket" && r.Proto != "HTTP/2.0" {
			t.Errorf("%s %s reached the site by %s: abide did not open it", r.Method, r.URI, r.Proto)
		}
	}
}
