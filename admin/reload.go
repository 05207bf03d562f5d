package admin

import (
	"errors"
	"net/http"
	"time"

	"github.com/abide-proxy/abide/policy"
)

// RefusedReload is a configuration that was not taken, because of its faults or
// because it needs a restart. The last good one holds.
type RefusedReload struct {
	Since  time.Time `json:"since"` // the first refusal after the last reload that succeeded
	Error  string    `json:"error"` // of the last refusal, in one line
	Faults []Fault   `json:"faults,omitempty"`
}

// NewRefusedReload tells of an error of a reload.
func NewRefusedReload(since time.Time, err error) *RefusedReload {
	return &RefusedReload{Since: since.UTC(), Error: detailOf(err), Faults: faultsOf(err)}
}

// Fault is one thing that is wrong with a configuration, or with limits that are set at
// run time.
type Fault struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	Key  string `json:"key,omitempty"`
	Text string `json:"text"`
}

// faultsOf are the faults of an error that has any, at most maxFaults.
func faultsOf(err error) []Fault {
	var faults policy.Faults
	if !errors.As(err, &faults) {
		return nil
	}
	var list []Fault
	for _, one := range faults[:min(len(faults), maxFaults)] {
		list = append(list, Fault{oneLine(one.Source), one.Line, oneLine(one.Key), oneLine(one.Text)})
	}
	return list
}

// reload reads the configuration again, as a SIGHUP does.
func (d *desk) reload(w http.ResponseWriter, r *http.Request) {
	if !readJSON(w, r, &struct{}{}) {
		return
	}
	if d.Reload == nil {
		refuse(w, http.StatusNotImplemented, "this process has no configuration to read again")
		return
	}
	changes, err := d.Reload()
	if err != nil {
		const status = http.StatusUnprocessableEntity
		answer(w, status, "application/problem+json", faultProblem{problem{http.StatusText(status), status, detailOf(err)}, faultsOf(err)})
		return
	}
	if changes == nil {
		changes = []string{}
	}
	answerJSON(w, struct {
		Reloaded bool     `json:"reloaded"`
		Changes  []string `json:"changes"`
	}{true, changes})
}
