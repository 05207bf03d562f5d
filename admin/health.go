package admin

import (
	"fmt"
	"net/http"
	"strings"
	"unicode"
)

// healthz tells that the process answers. It tells nothing else, since anybody
// may ask.
func (d *desk) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = fmt.Fprintln(w, "ok")
}

// readyz tells whether clients should be sent here, and what is missing. Details
// have addresses, paths and errors: they are for whoever may ask for everything.
func (d *desk) readyz(w http.ResponseWriter, r *http.Request) {
	detailed, ok := d.mayKnow(w, r)
	if !ok {
		return
	}
	checks := d.Ready()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if !ready(checks) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	for _, one := range checks {
		line := one.Name + ": " + one.word()
		if one.Detail != "" && detailed {
			line += " (" + one.Detail + ")"
		}
		_, _ = fmt.Fprintln(w, strings.Map(printable, line))
	}
	if len(checks) == 0 {
		_, _ = fmt.Fprintln(w, "ok")
	}
}

// word is how it is. What is degraded still serves: were clients sent elsewhere when
// what all instances share is away, there would be nowhere left to send them.
func (c Check) word() string {
	switch {
	case !c.OK:
		return "not ready"
	case c.Degraded:
		return "degraded"
	}
	return "ok"
}

func ready(checks []Check) bool {
	for _, one := range checks {
		if !one.OK {
			return false
		}
	}
	return true
}

// printable keeps a line one line.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return ' '
}
