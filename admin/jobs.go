package admin

import (
	"errors"
	"net/http"

	"github.com/abide-proxy/abide/status"
)

// jobs are the endpoints about jobs.
type jobs struct{ keeper Process }

// list lists the jobs that run.
func (j jobs) list(w http.ResponseWriter, r *http.Request) {
	answerJSON(w, append([]status.Job{}, j.keeper.Jobs(r.Context())...))
}

// steer pauses a job, or lets it go on.
func (j jobs) steer(pause bool, w http.ResponseWriter, r *http.Request) {
	if !readJSON(w, r, &struct{}{}) {
		return
	}
	err := j.keeper.PauseJob(r.Context(), r.PathValue("name"), pause)
	var missing status.Missing
	switch {
	case errors.As(err, &missing):
		refuse(w, http.StatusNotFound, err.Error())
	case err != nil:
		refuse(w, http.StatusBadGateway, status.ErrorLine(err))
	default:
		j.list(w, r)
	}
}
