package admin

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/abide-proxy/abide/status"
)

// healthz tells that the process answers. It tells nothing else, since anybody
// may ask.
func healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = fmt.Fprintln(w, "ok")
}

// readiness answers /readyz.
type readiness struct {
	guard   *guard
	process interface{ Ready() []status.Check }
}

// answer tells whether clients should be sent here, and what is missing. Details
// have addresses, paths and errors: they are for whoever may ask for everything.
func (h *readiness) answer(w http.ResponseWriter, r *http.Request) {
	detailed, ok := h.guard.mayKnow(w, r)
	if !ok {
		return
	}
	checks := h.process.Ready()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if !ready(checks) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	for _, one := range checks {
		line := one.Name + ": " + one.Word()
		if one.Detail != "" && detailed {
			line += " (" + one.Detail + ")"
		}
		_, _ = fmt.Fprintln(w, strings.Map(status.Printable, line))
	}
	if len(checks) == 0 {
		_, _ = fmt.Fprintln(w, "ok")
	}
}

func ready(checks []status.Check) bool {
	for _, one := range checks {
		if !one.OK {
			return false
		}
	}
	return true
}
