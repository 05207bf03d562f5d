package admin

import (
	"context"
	"errors"
	"net/http"

	"github.com/abide-proxy/abide/status"
)

// jobKeeper knows the jobs that run: that of this process, or those of this machine.
type jobKeeper interface {
	Jobs(ctx context.Context) []status.Job
	// PauseJob pauses a job, or lets it go on. The error is a status.Missing where no job of
	// that name runs.
	PauseJob(ctx context.Context, name string, pause bool) error
}

// jobs are the endpoints about jobs.
type jobs struct{ keeper jobKeeper }

// list lists the jobs that run.
func (j jobs) list(w http.ResponseWriter, r *http.Request) {
	answerJSON(w, append([]status.Job{}, j.keeper.Jobs(r.Context())...))
}

// pause pauses a job.
func (j jobs) pause(w http.ResponseWriter, r *http.Request) { j.steer(w, r, true) }

// resume lets a job go on.
func (j jobs) resume(w http.ResponseWriter, r *http.Request) { j.steer(w, r, false) }

func (j jobs) steer(w http.ResponseWriter, r *http.Request, pause bool) {
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
