package main

import (
	"fmt"
	"io"
	standard "log"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/term"

	"github.com/abide-proxy/abide/internal/shorten"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/proxy/ca"
)

func newLog(out io.Writer, p policy.Log) *logrus.Logger {
	log := logrus.New()
	log.SetOutput(out)
	setLog(log, p)
	// Some libraries write to the standard log. Their lines may quote a
	// client or site, so they have level debug.
	standard.SetFlags(0)
	standard.SetOutput(debugWriter{log})
	return log
}

type debugWriter struct{ log *logrus.Logger }

func (w debugWriter) Write(p []byte) (int, error) {
	w.log.Debug("library: ", strings.TrimSpace(string(p)))
	return len(p), nil
}

// setLog configures a log, at start and on reload.
func setLog(log *logrus.Logger, p policy.Log) {
	if level, err := logrus.ParseLevel(p.Level); err == nil {
		log.SetLevel(level)
	}
	if p.Format == "json" {
		log.SetFormatter(&logrus.JSONFormatter{TimestampFormat: time.RFC3339Nano})
		return
	}
	_, onTerminal := log.Out.(*liveLine) // logrus does not know
	plain := os.Getenv("NO_COLOR") != ""
	log.SetFormatter(&sentences{logrus.TextFormatter{FullTimestamp: true, DisableColors: plain, ForceColors: onTerminal && !plain}})
}

// sentences formats entries as text, without the fields that the sentence of an entry says
// anyway. They are for programs, which read log.format: json.
type sentences struct{ logrus.TextFormatter }

// saidFields are the keys of the fields that a sentence says.
var saidFields = []string{"site", "token", "client", "limit", "reason", "path"}

// Format formats an entry. A line of the access log is no sentence, and has all its fields.
func (s *sentences) Format(entry *logrus.Entry) ([]byte, error) {
	if _, access := entry.Data["url"]; access || len(entry.Data) == 0 {
		return s.TextFormatter.Format(entry)
	}
	shown := *entry
	shown.Data = maps.Clone(entry.Data)
	delete(shown.Data, "job") // a process runs one
	for _, key := range saidFields {
		if value, ok := shown.Data[key]; ok && strings.Contains(entry.Message, fmt.Sprint(value)) {
			delete(shown.Data, key)
		}
	}
	return s.TextFormatter.Format(&shown)
}

// warnOfProxyVariables logs that abide itself ignores the usual proxy variables, unless they are those that "abide env"
// prints for this data directory. Their values may hold a password and are not logged.
func warnOfProxyVariables(log *logrus.Logger, p *policy.Policy) {
	if dir := ca.Dir(p.Data); p.Egress.Proxy != nil || dir != "" && filepath.Dir(os.Getenv("NODE_EXTRA_CA_CERTS")) == dir {
		return
	}
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"} {
		if os.Getenv(name) != "" {
			log.Warnf(`%s names a proxy that abide does not use: it goes to sites itself. That is right where the proxy is an abide, as after eval "$(abide env)"; unset the variable then. Where only that proxy reaches the sites, name it in egress.proxy (ABIDE_EGRESS_PROXY)`, name)
			return
		}
	}
}

// liveLine writes to a terminal with a status line at the end: one line that is replaced
// again and again, and erased before other lines are written. It is safe for concurrent use.
type liveLine struct {
	file *os.File

	mu    sync.Mutex // held while anything is written
	shown string     // the status line, "" without one
}

// liveLineOf is a liveLine for the terminal that w writes to, nil if w is not a terminal
// that can erase a line. Other lines are to be written to above.
func liveLineOf(w io.Writer) (line *liveLine, above io.Writer) {
	if runtime.GOOS == "windows" || !isTerminal(w) {
		return nil, w
	}
	line = &liveLine{file: w.(*os.File)}
	return line, line
}

// eraseLine moves to the begin of the line and erases the line.
const eraseLine = "\r\x1b[K"

// Write writes above the status line.
func (t *liveLine) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.erase()
	return t.file.Write(p)
}

// show replaces the status line; "" erases it. It may be called on nil.
func (t *liveLine) show(text string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if text == t.shown {
		return
	}
	t.erase()
	if width, _, err := term.GetSize(int(t.file.Fd())); err == nil && width > 0 {
		text = shorten.To(width-1, text) // only one line can be erased
	}
	t.shown = text
	_, _ = t.file.WriteString(text) // an error does not matter
}

func (t *liveLine) erase() {
	if t.shown != "" {
		_, _ = t.file.WriteString(eraseLine)
		t.shown = ""
	}
}
