package admin

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

func TestJobsAreShownPausedAndResumed(t *testing.T) {
	state := status.JobRunning
	b := newBed(t, func(_ *policy.Policy, g *given) {
		g.Jobs = func() []status.Job {
			return []status.Job{{Name: "orders", Kind: "backfill", State: state, Units: status.JobUnits{Total: 4, Done: 1}, Limited: "api.test <quota>"}}
		}
		g.PauseJob = func(name string, pause bool) error {
			if name != "orders" {
				return status.Missing("no such job")
			}
			if state = status.JobRunning; pause {
				state = status.JobPaused
			}
			return nil
		}
	})
	var list []status.Job
	if r := b.get("/api/v1/jobs"); json.Unmarshal([]byte(r.body), &list) != nil || len(list) != 1 || list[0].Units.Done != 1 {
		t.Errorf("listed: %s", r.body)
	}
	if r := b.ask("POST", "/api/v1/jobs/orders/pause", "{}", "Content-Type: application/json"); r.StatusCode != 200 || !strings.Contains(r.body, `"paused"`) {
		t.Errorf("paused: %d %s", r.StatusCode, r.body)
	}
	if r := b.ask("POST", "/api/v1/jobs/orders/resume", "{}", "Content-Type: application/json"); r.StatusCode != 200 || !strings.Contains(r.body, `"running"`) {
		t.Errorf("resumed: %d %s", r.StatusCode, r.body)
	}
	if r := b.ask("POST", "/api/v1/jobs/other/pause", "{}", "Content-Type: application/json"); r.StatusCode != 404 || !strings.Contains(r.body, "no such job") {
		t.Errorf("another: %d %s", r.StatusCode, r.body)
	}
	if page := b.get("/").body; !strings.Contains(page, "1 of 4") || !strings.Contains(page, "api.test &lt;quota&gt;") {
		t.Errorf("the page does not show the job")
	}
}
