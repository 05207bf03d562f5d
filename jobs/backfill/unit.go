package backfill

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/abide-proxy/abide/internal/clock"
	"github.com/abide-proxy/abide/internal/shorten"
	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/jobs/paginate"
	"github.com/abide-proxy/abide/jobs/records"
	"github.com/abide-proxy/abide/jobs/send"
	"github.com/abide-proxy/abide/jobs/units"
	"github.com/abide-proxy/abide/policy/jobfile"
	"github.com/abide-proxy/abide/status"
)

// step holds what an answer adds to a walk.
type step struct {
	page output.Page
	note string // for the log, such as which style of pagination was recognised; "": none
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
	case errors.Is(err, output.ErrEmptied):
		return b.end(ctx, c, output.Incomplete, err.Error())
	case err == nil || isLost:
		return nil
	}
	last, end := context.WithTimeout(context.WithoutCancel(ctx), closingTime)
	defer end()
	if failed := b.options.Output.End(last, c, output.Waiting, time.Time{}, ""); failed != nil && !errors.Is(failed, output.ErrLost) {
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
	walk, err := b.walk(c)
	if err != nil {
		return b.end(ctx, c, output.Failed, err.Error())
	}
	for {
		for b.paused.Load() && ctx.Err() == nil {
			_ = clock.Sleep(ctx, minPause)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if over, err := b.page(ctx, c, walk); over || err != nil {
			return err
		}
	}
}

// page asks for a page and commits it. It tells whether the work on the unit is over.
func (b *Backfill) page(ctx context.Context, c *output.Claim, w *walk) (over bool, err error) {
	a, failure, err := b.ask(ctx, w)
	defer a.Release()
	if err != nil {
		return true, err
	}
	defer func() {
		if (over || !w.pages.Probes()) && (failure == nil || !failure.Unreached) {
			b.begin()
		}
	}()
	isNone := w.pages.Probes() && failure != nil && slices.Contains(ofNoPage, failure.Status)
	if rule, body := b.ruleOf(a, failure); rule.Then != "" && !isNone {
		return true, b.obey(ctx, c, rule, body, failure)
	}
	next, err := w.move(a, failure)
	if w.resumed && failure.Refuses() && (err != nil || next.page.Ends == output.Incomplete) {
		b.beginAnew(c, "the site refuses what an earlier run has come to ("+failure.Text+")")
		first, err := b.walk(c)
		if err == nil {
			*w = *first
		}
		return false, err
	}
	w.resumed = false
	switch {
	case errors.As(err, &failure):
		return true, b.failed(ctx, c, failure)
	case errors.Is(err, paginate.ErrPath):
		return true, fmt.Errorf("unit %s: %w", c.Key, err)
	case err != nil:
		return true, b.end(ctx, c, output.Failed, err.Error())
	}
	if next.note != "" && b.noted.Swap(next.note) != next.note {
		b.options.Log("%s", next.note)
	}
	if len(next.page.Records) > 0 {
		b.looked.Do(func() {
			if missing, there := emptyColumns(b.options.Job, next.page.Records); missing != "" {
				b.options.Warn("unit %s: %s; %s", c.Key, missing, there)
				b.progress.note(func() { b.progress.run.Empty = missing })
			}
		})
	}
	if err := b.commit(ctx, c, next.page); err != nil {
		return true, err
	}
	if next.page.Ends == output.NotOver {
		b.progress.note(func() { b.progress.run.Open = status.Later(b.progress.run.Open, w.first.Ends) })
	}
	return next.page.Ends != "", nil
}

// ruleOf returns the rule of the job about an answer, and its body; a rule without Then: there is none.
func (b *Backfill) ruleOf(a *send.Answer, f *send.Failure) (jobfile.Rule, []byte) {
	if len(b.options.Job.Errors) == 0 {
		return jobfile.Rule{}, nil
	}
	if f != nil {
		a = &send.Answer{Status: f.Status, Header: http.Header{}, Body: []byte(f.Body)}
	}
	body, _ := read(a) // what cannot be read has no paths
	for _, rule := range b.options.Job.Errors {
		v, _ := body.Get(rule.Path)
		value, isText := v.Text()
		has := rule.Is != "" && value == rule.Is || rule.Is == "" && !v.Null() && (!isText || value != "" && value != "false")
		if a.Status != 0 && (rule.Status == 0 || rule.Status == a.Status) && (rule.Path == "" || has) {
			return rule, a.Body
		}
	}
	return jobfile.Rule{}, nil
}

// read reads the body of an answer, which is JSON from then on, so that it may be read again.
func read(a *send.Answer) (records.Value, error) {
	body, err := records.Read(a.Header.Get("Content-Type"), a.Body)
	if err == nil {
		a.Body = body
		a.Header.Set("Content-Type", "application/json")
	}
	return body, err
}

// mostOfAnswer is the longest part of an answer in a reason.
const mostOfAnswer = 200

// obey does with the unit of an answer what a rule of the job says.
func (b *Backfill) obey(ctx context.Context, c *output.Claim, rule jobfile.Rule, body []byte, f *send.Failure) error {
	f = cmp.Or(f, &send.Failure{})
	text := fmt.Sprintf("%s, the answer, for which errors says %s, begins with %s", f.Text, rule.Then, shorten.To(mostOfAnswer, string(body)))
	f.Text, f.Permanent, f.Status = strings.TrimPrefix(text, ", "), false, 0 // the rule says what to do, whatever the status means
	last := output.Page{Ends: output.Done, Unchanged: c.Pages == 0 || rule.Then == "reject"}
	switch rule.Then {
	case "retry":
		return b.failed(ctx, c, f)
	case "stop":
		return fmt.Errorf("unit %s: %w", c.Key, f)
	case "reject":
		last.Records = []output.Record{{ID: c.Key, Unit: c.Key, Fetched: time.Now(), Body: body, Rejected: f.Text}}
	}
	b.options.Log("unit %s ends: %s", c.Key, f.Text)
	return b.commit(ctx, c, last)
}

// ofNoPage has the status of answers that may mean that there is no such page, and behindLast finds what servers say of a page
// behind the last one.
var ofNoPage = []int{http.StatusNotFound, http.StatusGone, http.StatusBadRequest, http.StatusRequestedRangeNotSatisfiable, http.StatusUnprocessableEntity}

var behindLast = regexp.MustCompile(`(?i)out.?of.?(range|bounds)|beyond|past the|invalid page|no such page|page .{0,40}not (exist|found)`)

// move moves the walk by an answer, or by the failure that a page does not exist.
func (w *walk) move(a *send.Answer, f *send.Failure) (step, error) {
	if f == nil {
		return w.answer(a, time.Now())
	}
	if i := slices.Index(ofNoPage, f.Status); i >= 0 {
		return w.missing(i < 2 || behindLast.MatchString(f.Body), f)
	}
	return step{}, f
}

// ask sends a request, and returns its answer, or why there is none. While abide itself refuses it for a time, such as while a
// breaker is open, it waits for that time and sends again. The error says that the work ends.
func (b *Backfill) ask(ctx context.Context, w *walk) (*send.Answer, *send.Failure, error) {
	for {
		r, err := w.request()
		if err != nil {
			return nil, &send.Failure{Text: err.Error(), Permanent: true}, nil
		}
		resp, err := b.options.Sender.Send(ctx, r, send.Options{Priority: b.options.Job.Request.Priority, Client: b.options.Job.Name, Rest: b.workers.rest})
		a, err := b.memory.Read(resp, err, time.Now())
		var f *send.Failure
		if err != nil && (ctx.Err() != nil || !errors.As(err, &f)) {
			return nil, nil, cmp.Or(ctx.Err(), err) // says nothing about the request
		}
		if f != nil && f.Held {
			b.progress.note(func() { b.progress.held, b.progress.heldAt = f.Text, time.Now() })
			if err := clock.Sleep(ctx, max(time.Until(f.After), minPause)); err != nil {
				return nil, nil, err
			}
			continue
		}
		b.progress.asked(a, f)
		return a, f, nil
	}
}

// The job stops after mostFruitless tries in a row that were answered with 401, or, while the job has no page yet,
// with something that has no records, and after mostUnreached, each of several attempts, that did not reach the host then.
const mostFruitless, mostUnreached = 8, 2

// failed ends a try that has failed: the unit waits for its next try, or has failed. Where others
// would fail the same way, the error stops the job.
func (b *Backfill) failed(ctx context.Context, c *output.Claim, f *send.Failure) error {
	b.progress.note(func() { b.progress.run.Failing = f.Text })
	if f.Status != http.StatusUnauthorized && (!f.Wrong && !f.Unreached || b.progress.counts().Pages > 0) {
		b.fruitless.Store(0)
	} else if n := b.fruitless.Add(1); n >= mostFruitless || f.Unreached && n >= mostUnreached {
		return fmt.Errorf("unit %s, as those before it: %w; the job stops, and goes on by the same command", c.Key, f)
	}
	if f.Permanent || c.Tries+1 >= b.options.Job.Tries {
		return b.end(ctx, c, output.Failed, f.Text)
	}
	from := nextTry(time.Now(), f.After, c.Tries, rand.Float64())
	return b.persist(ctx, func(ctx context.Context) error { return b.options.Output.End(ctx, c, output.Waiting, from, f.Text) })
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

// digits finds the numbers in the reasons of units that are incomplete for the same one.
var digits = regexp.MustCompile(`[0-9]+`)

// end ends a unit that is not complete.
func (b *Backfill) end(ctx context.Context, c *output.Claim, s output.State, reason string) error {
	err := b.persist(ctx, func(ctx context.Context) error { return b.options.Output.End(ctx, c, s, time.Time{}, reason) })
	if err == nil {
		b.ended(c, s, reason)
	}
	return err
}

// ended notes that a unit is over.
func (b *Backfill) ended(c *output.Claim, s output.State, reason string) {
	kind := digits.ReplaceAllString(reason, "")
	if s == output.Failed || s == output.Incomplete && b.warned.Swap(kind) != kind { // many may be incomplete for one reason
		b.options.Warn("unit %s is %s: %s", c.Key, s, reason)
	}
	b.progress.note(func() { b.progress.units++ })
}

// commit commits a page. It is finished also when the process stops meanwhile.
func (b *Backfill) commit(ctx context.Context, c *output.Claim, p output.Page) error {
	rejected, replaced := c.Rejected, c.Replaced
	err := b.persist(ctx, func(ctx context.Context) error {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closingTime)
		defer cancel()
		return b.options.Output.Commit(last, c, p)
	})
	if err == nil {
		b.fruitless.Store(0)
		b.progress.note(func() { b.progress.run.Failing = "" })
		b.progress.page(len(p.Records), c.Rejected-rejected, c.Replaced-replaced)
		if p.Ends != "" {
			b.ended(c, p.Ends, p.Reason)
		}
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

// walk is the walk through the pages of a unit.
type walk struct {
	unit      string
	first     *units.Request
	pages     *paginate.Walk
	extractor *records.Extractor
	placed    bool       // see jobfile.Job
	about     string     // what decides about the records of a unit besides the answers
	resumed   bool       // the next page is at a place that an earlier run has saved, and has not failed in this one
	known     validators // of an answer that the unit had; zero: none
}

// validators are the checkpoint of a unit that had one page: what the next run asks by whether that has changed.
type validators struct {
	ETag     string `json:"etag,omitempty"`
	Modified string `json:"modified,omitempty"`
	Of       string `json:"of,omitempty"` // hash of the URL, and of what decides about the records
}

// of is the hash of validators of a page.
func (w *walk) of(u *url.URL) string { return shorten.Hash(8, w.about+u.String()) }

// walk is the walk of a claim, at its checkpoint.
func (b *Backfill) walk(c *output.Claim) (*walk, error) {
	job := b.options.Job
	first, err := units.Fill(job, c.Unit)
	if err != nil {
		return nil, err
	}
	checkpoint := c.Checkpoint
	if c.Pages == 0 { // it is that of an earlier run
		checkpoint = nil
	}
	pages, err := paginate.New(job.Paginate, first.URL, first.Body, checkpoint, &b.learned)
	if err == nil && pages.Anew {
		b.beginAnew(c, "paginate or the request is another one, or an older release has fetched what they have")
	} else if err == nil && pages.Expired(time.Now(), job.Replace) {
		b.beginAnew(c, "their pages are of more than 20 hours ago, and the list may have moved")
		pages, err = paginate.New(job.Paginate, first.URL, first.Body, nil, &b.learned)
	}
	if err != nil {
		return nil, err
	}
	w := &walk{unit: c.Key, first: first, pages: pages, extractor: b.extractor, placed: job.Placed, resumed: c.Pages > 0 && c.Tries == 0}
	w.about = fmt.Sprint(job.Paginate, job.Columns, job.Errors, c.Values, map[bool]string{true: " place"}[job.Placed])
	if checkpoint == nil {
		_ = json.Unmarshal(c.Checkpoint, &w.known) // that of several pages has none
	}
	return w, nil
}

// beginAnew has the walk of a claim begin at its first page. The log says why the first such unit of a run does.
func (b *Backfill) beginAnew(c *output.Claim, why string) {
	c.Pages = 0
	b.anew.Do(func() { b.options.Log("units that were begun, such as %s, begin again: %s", c.Key, why) })
}

// request is the request for the next page.
func (w *walk) request() (*http.Request, error) {
	u := w.pages.Next()
	if u == nil {
		return nil, errors.New("the walk was over at its checkpoint")
	}
	known := w.known
	if known.Of != w.of(u) {
		known = validators{}
	}
	return w.first.HTTP(u, w.pages.Body(), known.ETag, known.Modified)
}

// wrongAnswer finds what servers say of an error.
var wrongAnswer = regexp.MustCompile(`(?i)error|message|fault|exception`)

// answer takes the records out of an answer and finds the next page. An answer that has no records
// where they should be may be another one the next time.
func (w *walk) answer(a *send.Answer, now time.Time) (step, error) {
	u := w.pages.Next()
	switch {
	case a.Status != http.StatusNotModified:
	case w.known.Of != w.of(u):
		return step{}, &send.Failure{Text: "the site answered 304 Not Modified, and abide has not asked whether the page has changed", Permanent: true}
	default:
		kept, _ := json.Marshal(w.known) // texts have no error
		return step{page: output.Page{Checkpoint: kept, Ends: output.Done, Unchanged: true}}, nil
	}
	body, err := read(a)
	if err != nil {
		return step{}, &send.Failure{Text: fmt.Sprintf("page %d: %v", w.pages.Pages()+1, err), Wrong: true}
	}
	list, err := w.extractor.Records(body, w.pages.Pages()+1, w.first.Parts)
	if body.Null() && w.pages.Pages() > 0 {
		err = records.ErrNoList
	}
	if err != nil {
		wrong := &send.Failure{Text: err.Error(), Wrong: true}
		if errors.Is(err, records.ErrNoList) && !wrongAnswer.MatchString(string(body)) {
			return w.missing(true, wrong)
		}
		return step{}, wrong
	}
	digest := records.Digest(list)
	for i := range list {
		list[i].Unit, list[i].Fetched = w.unit, now
		if w.first.Complete(&list[i]); w.placed && list[i].Rejected == "" {
			list[i].ID += fmt.Sprintf("-%d-%d", w.pages.Pages()+1, i+1)
		}
	}
	moved, err := w.pages.Answer(paginate.Page{
		URL: u, Header: a.Header, Body: body, Whole: w.extractor.Whole(body), Records: len(list), Digest: digest,
	})
	if err != nil {
		return step{}, err
	}
	if moved.Again {
		list = nil
	}
	s := w.step(moved, list)
	known := validators{a.Header.Get("ETag"), a.Header.Get("Last-Modified"), w.of(u)}
	if s.page.Ends == output.Done && w.pages.Pages() == 1 && w.first.Method == http.MethodGet && known.ETag+known.Modified != "" {
		s.page.Checkpoint, _ = json.Marshal(known) // texts have no error
	}
	return s, nil
}

// missing takes an answer that the page does not exist; surely is false where the answer may mean
// something else. Where the page should exist, the answer is the failure.
func (w *walk) missing(surely bool, f *send.Failure) (step, error) {
	moved, err := w.pages.Missing(surely)
	if err != nil {
		return step{}, f
	}
	return w.step(moved, nil), nil
}

// step is a step of the walk.
func (w *walk) step(moved paginate.Step, list []output.Record) step {
	p := output.Page{Records: list, Checkpoint: w.pages.Checkpoint(time.Now())}
	switch {
	case moved.State == paginate.Incomplete:
		p.Ends, p.Reason = output.Incomplete, moved.Reason
	case moved.State == paginate.Complete && w.first.Ends.After(time.Now()):
		p.Ends, p.Reason = output.NotOver, "its time is not over before "+w.first.Ends.Format(time.RFC3339)+", so more records may come: the next run fetches it again"
	case moved.State == paginate.Complete:
		p.Ends = output.Done
	}
	return step{p, moved.Found}
}
