package dispatch

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/abide-proxy/abide/policy"
)

// RequestOptions are what a crawler says about its own request, in Abide-* headers. The zero
// value is a request that says nothing.
type RequestOptions struct {
	Urgency int           // Abide-Priority plus one; 0: not said
	Wait    time.Duration // Abide-Max-Wait, if Limited; 0: now or not at all
	Cost    int64         // Abide-Cost; 0: not said
	Client  string        // Abide-Client; "": not said
	Once    bool          // Abide-Retry: none
	Limited bool          // Abide-Max-Wait was said
}

// HeaderPrefix begins the headers that are for abide alone.
const HeaderPrefix = "Abide-"

// ReadOptions reads the Abide-* headers and removes them: sites never see them. What a
// CONNECT said holds for each request inside that does not say otherwise.
func ReadOptions(h http.Header, o RequestOptions) (_ RequestOptions, ok bool) {
	ok = true
	for name, values := range h {
		if !strings.HasPrefix(name, HeaderPrefix) {
			continue
		}
		delete(h, name)
		if len(values) != 1 || !o.read(name, strings.TrimSpace(values[0])) {
			ok = false
		}
	}
	return o, ok
}

// limitWait sets the longest wait.
func (o *RequestOptions) limitWait(d time.Duration) { o.Wait, o.Limited = d, true }

// now tells whether the request goes now or not at all.
func (o *RequestOptions) now() bool { return o.Limited && o.Wait == 0 }

// read takes one header; false when it makes no sense.
func (o *RequestOptions) read(name, value string) bool {
	switch name {
	case "Abide-Priority":
		n, err := strconv.Atoi(value)
		o.Urgency = n + 1
		return err == nil && n >= 0 && n <= 7
	case "Abide-Max-Wait":
		d, err := policy.ParseWait(value)
		o.limitWait(d)
		return err == nil
	case "Abide-Cost":
		n, err := strconv.ParseInt(value, 10, 32)
		o.Cost = n
		return err == nil && n >= 1
	case "Abide-Client":
		o.Client = value
		return value != "" && len(value) <= 64
	case "Abide-Retry":
		o.Once = value == "none"
		return o.Once
	}
	return false // unknown: a misspelt option would be ignored in silence otherwise
}
