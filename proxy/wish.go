package proxy

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/abide-proxy/abide/policy"
)

// wish is what a crawler says about its own request, in Abide-* headers. The zero
// value is a request that says nothing.
type wish struct {
	urgency int           // its priority plus one; 0: not said
	wait    time.Duration // the longest, if limited; 0: now or not at all
	cost    int64
	client  string
	once    bool // Abide-Retry: none
	limited bool // Abide-Max-Wait was said
}

// wishPrefix begins the headers that are for abide alone.
const wishPrefix = "Abide-"

// wishOf reads the Abide-* headers and removes them: sites never see them. What a
// CONNECT said holds for each request inside that does not say otherwise.
func wishOf(h http.Header, w wish) (_ wish, ok bool) {
	ok = true
	for name, values := range h {
		if !strings.HasPrefix(name, wishPrefix) {
			continue
		}
		delete(h, name)
		if len(values) != 1 || !w.read(name, strings.TrimSpace(values[0])) {
			ok = false
		}
	}
	return w, ok
}

// limit sets the longest wait.
func (w *wish) limit(d time.Duration) { w.wait, w.limited = d, true }

// now tells whether the request goes now or not at all.
func (w *wish) now() bool { return w.limited && w.wait == 0 }

// read takes one header; false when it makes no sense.
func (w *wish) read(name, value string) bool {
	switch name {
	case "Abide-Priority":
		n, err := strconv.Atoi(value)
		w.urgency = n + 1
		return err == nil && n >= 0 && n <= 7
	case "Abide-Max-Wait":
		d, err := policy.ParseWait(value)
		w.limit(d)
		return err == nil
	case "Abide-Cost":
		n, err := strconv.ParseInt(value, 10, 32)
		w.cost = n
		return err == nil && n >= 1
	case "Abide-Client":
		w.client = value
		return value != "" && len(value) <= 64
	case "Abide-Retry":
		w.once = value == "none"
		return w.once
	}
	return false // unknown: a misspelt wish would be ignored in silence otherwise
}
