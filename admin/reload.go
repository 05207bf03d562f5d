package admin

import (
	"errors"
	"net/http"
	"time"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// NewRefusedReload tells of an error of a reload.
func NewRefusedReload(since time.Time, err error) *status.RefusedReload {
	return &status.RefusedReload{Since: since.UTC(), Error: status.ErrorLine(err), Faults: FaultsOf(err)}
}

// FaultsOf are the faults of an error that has any, at most maxFaults.
func FaultsOf(err error) []status.Fault {
	var faults policy.Faults
	if !errors.As(err, &faults) {
		return nil
	}
	return lists.Map(faults[:min(len(faults), maxFaults)], func(fault policy.Fault) status.Fault {
		return status.Fault{File: status.OneLine(fault.Source), Line: fault.Line, Key: status.OneLine(fault.Key), Text: status.OneLine(fault.Text)}
	})
}

// reload reads the configuration again, as a SIGHUP does.
func reload(by Process, w http.ResponseWriter, r *http.Request) {
	if !readJSON(w, r, &struct{}{}) {
		return
	}
	changes, err := by.Reload()
	if errors.Is(err, errors.ErrUnsupported) {
		refuse(w, http.StatusNotImplemented, "this process has no configuration to read again")
		return
	}
	if err != nil {
		const code = http.StatusUnprocessableEntity
		answer(w, code, "application/problem+json", status.Problem{Title: http.StatusText(code), Status: code, Detail: status.ErrorLine(err), Faults: FaultsOf(err)})
		return
	}
	if changes == nil {
		changes = []string{}
	}
	answerJSON(w, status.Reloaded{Reloaded: true, Changes: changes})
}
