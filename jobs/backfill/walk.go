package backfill

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/jobs/paginate"
	"github.com/abide-proxy/abide/jobs/records"
	"github.com/abide-proxy/abide/jobs/send"
	"github.com/abide-proxy/abide/jobs/units"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// PagesOf makes the walks of a job's units.
func PagesOf(job *jobfile.Job) (func(c *output.Claim) (Walk, error), error) {
	extractor, err := records.New(job)
	if err != nil {
		return nil, err
	}
	return func(c *output.Claim) (Walk, error) {
		first, err := units.Fill(job, c.Unit)
		if err != nil {
			return nil, err
		}
		pages, err := paginate.Restore(job.Paginate, first.URL, c.Checkpoint)
		if err != nil {
			return nil, err
		}
		return &unitWalk{unit: c.Key, first: first, pages: pages, extractor: extractor}, nil
	}, nil
}

// unitWalk is the walk through the pages of a unit of a job.
type unitWalk struct {
	unit      string
	first     *units.Request
	pages     *paginate.Walk
	extractor *records.Extractor
}

// Request is the request for the next page.
func (w *unitWalk) Request() (*http.Request, error) {
	u := w.pages.Next()
	if u == nil {
		return nil, errors.New("the walk was over at its checkpoint")
	}
	return w.first.HTTP(u)
}

// Answer takes the records out of an answer and finds the next page.
func (w *unitWalk) Answer(a *send.Answer, now time.Time) (Step, error) {
	body, err := records.Read(a.Header.Get("Content-Type"), a.Body)
	if err != nil {
		return Step{}, fmt.Errorf("page %d: %w", w.pages.Pages()+1, err)
	}
	list, err := w.extractor.Records(body, w.pages.Pages()+1)
	if err != nil {
		return Step{}, err
	}
	for i := range list {
		list[i].Unit, list[i].Fetched = w.unit, now
	}
	before := w.pages.Checkpoint()
	step, err := w.pages.Answer(paginate.Page{URL: w.pages.Next(), Header: a.Header, Body: body, Records: len(list), Digest: records.Digest(list)})
	if err != nil {
		return Step{}, err
	}
	return w.step(step, list, before), nil
}

// Missing takes an answer that the page does not exist.
func (w *unitWalk) Missing() (Step, error) {
	before := w.pages.Checkpoint()
	step, err := w.pages.Missing()
	if err != nil {
		return Step{}, err
	}
	return w.step(step, nil, before), nil
}

// step is a step of the walk. One that is cut short keeps the checkpoint before the page, so
// that the same is found again if the process ends before the unit is ended.
func (w *unitWalk) step(step paginate.Step, list []output.Record, before []byte) Step {
	s := Step{Page: output.Page{Records: list, Checkpoint: w.pages.Checkpoint(), Done: step.State == paginate.Complete}, Note: step.Found}
	if step.State == paginate.Incomplete {
		s.Cut, s.Page.Checkpoint = step.Reason, before
	}
	return s
}
