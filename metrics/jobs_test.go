package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/status"
)

func TestJobsAreCollected(t *testing.T) {
	m := New(10)
	m.Jobs.Ask(func() []status.Job {
		return []status.Job{
			{Name: "orders", Records: 7, Units: status.JobUnits{Done: 3, Failed: 1}},
			{Name: "orders", Records: 8, Done: time.Unix(1738310400, 0), Units: status.JobUnits{Done: 3, Failed: 1}}, // of another process with the same output
			{Name: "prices", Records: 9, Round: &status.JobRound{Lag: 1.5}},
		}
	})
	text := text(m)
	for _, line := range []string{
		`abide_job_records_total{job="orders"} 8`,
		`abide_job_units{job="orders",state="done"} 3`,
		`abide_job_units{job="orders",state="failed"} 1`,
		`abide_job_done_timestamp_seconds{job="orders"} 1.7383104e+09`,
		`abide_job_round_lag_seconds{job="prices"} 1.5`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("there is no %s", line)
		}
	}
}
