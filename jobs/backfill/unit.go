package backfill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"sync"
	"time"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/jobs/paginate"
	"github.com/abide-proxy/abide/jobs/records"
	"github.com/abide-proxy/abide/jobs/send"
	"github.com/abide-proxy/abide/jobs/units"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// Walk is the walk through the pages of one unit.
type Walk interface {
	// Request is the request for the next page.
	Request() (*http.Request, error)
	// Answer takes the answer. An error means that the same answer would not be understood
	// again.
	Answer(a *send.Answer, now time.Time) (Step, error)
	// Missing takes an answer that the page does not exist; surely is false where the answer may
	// mean something else. An error means that the page should exist.
	Missing(surely bool) (Step, error)
}

// Step holds what an answer adds to a walk.
type Step struct {
	Page output.Page
	Cut  string // why the walk ends although it is not complete; "": it goes on, or is complete
	Note string // for the log, such as which style of pagination was recognised; "": none
}

// unit walks through the pages of a claimed unit. Its error means that no unit can be worked
// on.
func (b *Backfill) unit(ctx context.Context, c *output.Claim) error {
	inner, cancel := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { b.renew(inner, cancel, c) })
	err := b.pages(inner, c)
	isLost := inner.Err() != nil && ctx.Err() == nil
	cancel()
	renewing.Wait()
	switch {
	case errors.Is(err, output.ErrLost):
		b.options.Log("%v", err)
		return nil
	case err == nil || isLost:
		return nil
	}
	last, end := context.WithTimeout(context.WithoutCancel(ctx), closingTime)
	defer end()
	if failed := b.options.Output.Release(last, c); failed != nil {
		b.options.Warn("unit %s could not be released, so it can be claimed again in %v: %v", c.Key, output.LeaseTime, failed)
	}
	return cmp.Or(ctx.Err(), err)
}

// closingTime bounds the time of the output for what is written while a process stops.
const closingTime = 10 * time.Second

// renew renews the lease of a claim until ctx is done. When the claim is lost, it ends the work on it.
func (b *Backfill) renew(ctx context.Context, cancel func(), c *output.Claim) {
	for range clock.Ticks(ctx, output.LeaseTime/4) {
		// The commit that needs the output says why it is away.
		if err := b.options.Output.Renew(ctx, c); errors.Is(err, output.ErrLost) {
			b.options.Warn("%v", err)
			cancel()
		}
	}
}

// pages asks for one page after the other and commits each.
func (b *Backfill) pages(ctx context.Context, c *output.Claim) error {
	walk, err := b.options.Pages(c)
	if err != nil {
		return b.end(ctx, c, output.Failed, err.Error())
	}
	for over := false; !over; {
		if err := b.resumed(ctx); err != nil {
			return err
		}
		if over, err = b.page(ctx, c, walk); err != nil {
			return err
		}
	}
	return nil
}

// page asks for a page and commits it. It tells whether the work on the unit is over.
func (b *Backfill) page(ctx context.Context, c *output.Claim, walk Walk) (over bool, err error) {
	a, err := b.ask(ctx, walk)
	defer a.Release()
	var failure *send.Failure
	if err != nil && !errors.As(err, &failure) {
		return true, err
	}
	step, err := step(walk, a, failure)
	switch {
	case errors.As(err, &failure):
		return true, b.failed(ctx, c, failure)
	case errors.Is(err, paginate.ErrPath):
		return true, fmt.Errorf("unit %s: %w", c.Key, err)
	case err != nil:
		return true, b.end(ctx, c, output.Failed, err.Error())
	}
	if step.Note != "" {
		b.progress.note(step.Note, b.options.Log)
	}
	if err := b.commit(ctx, c, step.Page); err != nil {
		return true, err
	}
	switch {
	case step.Cut != "":
		return true, b.end(ctx, c, output.Incomplete, step.Cut)
	case step.Page.Done:
		b.progress.units.Add(1)
	}
	return step.Page.Done, nil
}

// behindLast finds what servers say of a page behind the last one.
var behindLast = regexp.MustCompile(`(?i)out.?of.?(range|bounds)|beyond|past the|invalid page|no such page|page .{0,40}not (exist|found)`)

// step moves a walk by an answer, or by the failure that a page does not exist.
func step(walk Walk, a *send.Answer, f *send.Failure) (Step, error) {
	var s Step
	err := error(f)
	switch {
	case f == nil:
		return walk.Answer(a, time.Now())
	case f.Status == http.StatusNotFound || f.Status == http.StatusGone:
		s, err = walk.Missing(true)
	case f.Status == http.StatusBadRequest || f.Status == http.StatusRequestedRangeNotSatisfiable || f.Status == http.StatusUnprocessableEntity:
		s, err = walk.Missing(behindLast.MatchString(f.Body))
	}
	if err != nil {
		return Step{}, f
	}
	return s, nil
}

// ask sends a request. While abide itself refuses it for a time, such as while a breaker is
// open, it waits for that time and sends again.
func (b *Backfill) ask(ctx context.Context, walk Walk) (*send.Answer, error) {
	for {
		r, err := walk.Request()
		if err != nil {
			return nil, &send.Failure{Text: err.Error(), Permanent: true}
		}
		resp, err := b.options.Sender.Send(ctx, r, send.Options{Priority: b.options.Job.Request.Priority, Client: b.options.Job.Name})
		a, err := b.memory.Read(resp, err, time.Now())
		if err != nil && ctx.Err() != nil {
			return nil, ctx.Err() // says nothing about the request
		}
		var f *send.Failure
		if errors.As(err, &f) && f.Held {
			b.progress.holdBack(f.Text)
			if err := clock.Sleep(ctx, max(time.Until(f.After), minPause)); err != nil {
				return nil, err
			}
			continue
		}
		b.progress.asked(a, f)
		return a, err
	}
}

// mostFruitless is the number of tries in a row after which the job stops, if they were answered with
// 401, or with something that has no records while the job has no page yet.
const mostFruitless = 8

// failed ends a try that has failed: the unit waits for its next try, or has failed. Where others
// would fail the same way, the error stops the job.
func (b *Backfill) failed(ctx context.Context, c *output.Claim, f *send.Failure) error {
	if (f.Status == http.StatusUnauthorized || f.Wrong && b.progress.counts().Pages == 0) && b.fruitless.Add(1) >= mostFruitless {
		return fmt.Errorf("unit %s, as those before it: %w; the job stops, and goes on by the same command", c.Key, f)
	}
	if f.Permanent || c.Tries+1 >= b.options.Job.Tries {
		return b.end(ctx, c, output.Failed, f.Text)
	}
	from := nextTry(time.Now(), f.After, c.Tries, rand.Float64())
	return b.persist(ctx, func(ctx context.Context) error { return b.options.Output.PutBack(ctx, c, from, f.Text) })
}

// Pauses before a unit's next try.
const (
	minPause = 100 * time.Millisecond
	maxPause = time.Minute
)

// nextTry returns the time of a unit's next try after so many tries. after is the time from
// which the site allows it; zero: not said. jitter, from 0 to 1, keeps units that failed together
// from coming back together.
func nextTry(now, after time.Time, tries int, jitter float64) time.Time {
	pause := min(minPause<<min(tries, 20), maxPause)
	half := time.Duration(jitter * float64(pause) / 2)
	if at := now.Add(pause - half); at.After(after) {
		return at
	}
	return after.Add(half)
}

// end ends a unit that is not complete.
func (b *Backfill) end(ctx context.Context, c *output.Claim, s output.State, reason string) error {
	b.options.Warn("unit %s is %s: %s", c.Key, s, reason)
	err := b.persist(ctx, func(ctx context.Context) error { return b.options.Output.End(ctx, c, s, reason) })
	if err == nil {
		b.progress.units.Add(1)
	}
	return err
}

// commit commits a page. It is finished also when the process stops meanwhile.
func (b *Backfill) commit(ctx context.Context, c *output.Claim, p output.Page) error {
	err := b.persist(ctx, func(ctx context.Context) error {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closingTime)
		defer cancel()
		return b.options.Output.Commit(last, c, p)
	})
	if err == nil {
		b.fruitless.Store(0)
		b.progress.page(len(p.Records))
	}
	return err
}

// persist calls do again and again while the output is away.
func (b *Backfill) persist(ctx context.Context, do func(ctx context.Context) error) error {
	err := b.patience.Write(ctx, do)
	if ctx.Err() != nil && errors.Is(err, output.ErrAway) {
		return ctx.Err()
	}
	return err
}

// PagesOf makes the walks of a job's units.
func PagesOf(job *jobfile.Job) (func(c *output.Claim) (Walk, error), error) {
	extractor, err := records.New(job)
	if err != nil {
		return nil, err
	}
	learned := &paginate.Learned{}
	return func(c *output.Claim) (Walk, error) {
		first, err := units.Fill(job, c.Unit)
		if err != nil {
			return nil, err
		}
		pages, err := paginate.Restore(job.Paginate, first.URL, c.Checkpoint, learned)
		if err != nil {
			return nil, err
		}
		return &unitWalk{unit: c.Key, first: first, pages: pages, extractor: extractor, unchecked: job.Paginate.Unchecked}, nil
	}, nil
}

// unitWalk is the walk through the pages of a unit of a job.
type unitWalk struct {
	unit      string
	first     *units.Request
	pages     *paginate.Walk
	extractor *records.Extractor
	unchecked bool
}

// Request is the request for the next page.
func (w *unitWalk) Request() (*http.Request, error) {
	u := w.pages.Next()
	if u == nil {
		return nil, errors.New("the walk was over at its checkpoint")
	}
	return w.first.HTTP(u)
}

// wrongAnswer finds what servers say of an error.
var wrongAnswer = regexp.MustCompile(`(?i)error|message|fault|exception`)

// Answer takes the records out of an answer and finds the next page. An answer that has no records
// where they should be may be another one the next time.
func (w *unitWalk) Answer(a *send.Answer, now time.Time) (Step, error) {
	body, err := records.Read(a.Header.Get("Content-Type"), a.Body)
	if err != nil {
		return Step{}, &send.Failure{Text: fmt.Sprintf("page %d: %v", w.pages.Pages()+1, err), Wrong: true}
	}
	list, err := w.extractor.Records(body, w.pages.Pages()+1)
	if body.Null() && w.pages.Pages() > 0 {
		err = records.ErrNoList
	}
	if errors.Is(err, records.ErrNoList) && !wrongAnswer.MatchString(string(body)) {
		if s, missing := w.Missing(true); missing == nil {
			return s, nil
		}
	}
	if err != nil {
		return Step{}, &send.Failure{Text: err.Error(), Wrong: true}
	}
	for i := range list {
		list[i].Unit, list[i].Fetched = w.unit, now
	}
	before := w.pages.Checkpoint()
	step, err := w.pages.Answer(paginate.Page{
		URL: w.pages.Next(), Header: a.Header, Body: body, Whole: w.extractor.Whole(body), Records: len(list), Digest: records.Digest(list),
	})
	if err != nil {
		return Step{}, err
	}
	return w.step(step, list, before), nil
}

// Missing takes an answer that the page does not exist.
func (w *unitWalk) Missing(surely bool) (Step, error) {
	before := w.pages.Checkpoint()
	step, err := w.pages.Missing(surely)
	if err != nil {
		return Step{}, err
	}
	return w.step(step, nil, before), nil
}

// step is a step of the walk. One that is cut short keeps the checkpoint before the page, so
// that the same is found again if the process ends before the unit is ended.
func (w *unitWalk) step(step paginate.Step, list []output.Record, before []byte) Step {
	s := Step{Page: output.Page{Records: list, Checkpoint: w.pages.Checkpoint(), Done: step.State == paginate.Complete}, Note: step.Found}
	if now := time.Now(); step.State == paginate.Complete && w.first.Ends.After(now) && !w.unchecked {
		step = paginate.Step{State: paginate.Incomplete, Found: step.Found, Reason: "its time is not over before " + w.first.Ends.Format(time.RFC3339) + ", so more records may come: the next run fetches it again"}
		s.Page.Done = false
	}
	if step.State == paginate.Incomplete {
		s.Cut, s.Page.Checkpoint = step.Reason, before
	}
	return s
}
