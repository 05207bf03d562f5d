package status

import "time"

// States of a job.
const (
	JobRunning = "running"
	JobPaused  = "paused"
	JobStopped = "stopped" // no process works on it, and units are left
	JobDone    = "done"
	JobFailed  = "failed" // all units are over, and some failed or are incomplete
)

// Job tells how far a job is.
type Job struct {
	Name    string    `json:"name"`
	Kind    string    `json:"kind"` // "backfill" or "collect"
	State   string    `json:"state"`
	Output  string    `json:"output"` // without a password
	Units   JobUnits  `json:"units"`
	Pages   int64     `json:"pages"`
	Records int64     `json:"records"`
	Rejects int64     `json:"rejects,omitempty"`  // records that were rejected, in a table of their own
	Rate    float64   `json:"records_per_second"` // lately
	Limited string    `json:"limited_by,omitempty"`
	Reason  string    `json:"reason,omitempty"` // why the last run of this machine has stopped before its end
	Started time.Time `json:"started,omitzero"`
	Ends    time.Time `json:"ends,omitzero"` // estimated; zero: unknown
	Done    time.Time `json:"done,omitzero"` // when a run ended last with all units done; zero: unknown
	Round   *JobRound `json:"round,omitempty"`
	Run     *JobRun   `json:"run,omitempty"`
}

// JobRun counts what one run of a backfill has done, in this process.
type JobRun struct {
	Requests int64 `json:"requests"` // with those that failed
	Pages    int64 `json:"pages"`
	Records  int64 `json:"records"` // without those that were rejected
	Rejects  int64 `json:"rejects"`
	Replaced int64 `json:"replaced"` // records that took the place of others with the same id, of the page or of another unit; without id, of earlier pages, too

	Open    time.Time `json:"open_until,omitzero"` // when all units are over whose time was not over
	Empty   string    `json:"empty,omitempty"`     // the columns that no record of the first page has, "" for none
	Failing string    `json:"failing,omitempty"`   // why the last try has failed, "" if a page came since
}

// JobUnits counts the units of a job.
type JobUnits struct {
	Total      int64 `json:"total"`
	Waiting    int64 `json:"waiting"`
	Running    int64 `json:"running"`
	Done       int64 `json:"done"`
	Failed     int64 `json:"failed"`
	Incomplete int64 `json:"incomplete"`
	Open       int64 `json:"open"`            // all was fetched, and their time is not over
	Aside      int64 `json:"aside,omitempty"` // of items or dates that the job no longer has; Total does not count them
}

// Left counts the units that are not over.
func (u JobUnits) Left() int64 { return u.Waiting + u.Running }

// Ended returns the state of a job with these units; "" while some are left, or where there are none.
func (u JobUnits) Ended() string {
	switch {
	case u.Left() > 0 || u.Total == 0:
		return ""
	case u.Failed+u.Incomplete > 0:
		return JobFailed
	}
	return JobDone
}

// JobRound tells how the rounds of a collection go.
type JobRound struct {
	Every   float64 `json:"every_seconds"`
	Number  int64   `json:"number"`
	Targets int     `json:"targets"`
	Failing int     `json:"failing"`
	Missed  int64   `json:"missed"` // rounds of targets, since the start
	Lag     float64 `json:"lag_seconds"`
}
