// Package paginate finds the next page of a walk: the pages of one unit of a job, one after
// another. It sends nothing.
//
//	w, err := paginate.Begin(job.Paginate, first)      // or Restore(job.Paginate, first, checkpoint)
//	for u := w.Next(); u != nil; u = w.Next() {
//		answer := …                                // ask for u
//		step, err := w.Answer(paginate.Page{URL: u, Header: answer.Header, Body: body,
//			Records: len(list), Digest: records.Digest(list)})
//		…                                          // one transaction: list and w.Checkpoint()
//	}
//
// A page that fails is not told to the walk, so that Next stays what it is. If the transaction
// fails, the walk begins again by Restore from the checkpoint before. An answer 404 behind the
// first page is told by Missing.
//
// # When a walk is over
//
// A walk is complete when the server says so: a page without a cursor or a link to the next
// one, a false Pagination.More, a total that is reached, or, if pages are counted by offset or
// number, a page that is empty or shorter than Pagination.Size. It is incomplete when it ends
// and more may be there:
//
//   - a cursor, a URL or the records of a page come again;
//   - the next page is at another origin, or its URL has a user name;
//   - there are more pages than MaxPages, or MaxEmpty pages in a row are empty;
//   - the server says that there is more, by More or by a total, and gives nothing more;
//   - the total falls while pages are counted: records may have moved to pages that were read.
//
// Servers give fewer records than they are asked for, if Size is more than they allow: offsets
// move by what came, a short page does not end a walk while a total or More promises more, and
// a first page whose length looks like a maximum (100, 250, 1024) is followed by one more
// request. A total that is too low does not end a walk while pages are full.
package paginate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/abide-proxy/abide/jobs/records"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// MaxEmpty bounds the number of empty pages in a row.
const MaxEmpty = 100

// Page is an answer.
type Page struct {
	URL     *url.URL // that was asked
	Header  http.Header
	Body    records.Value
	Records int    // how many there are
	Digest  string // tells the records from those of another page
}

// State of a walk.
type State string

// States of walks.
const (
	Going      State = "going"
	Complete   State = "complete"
	Incomplete State = "incomplete"
)

// Step tells what an answer means for a walk.
type Step struct {
	State  State
	Reason string // why the walk is over, a part of a sentence: "the page has no cursor"
	Found  string // the first time auto knows how pages follow: a sentence about it
}

// Walk goes from page to page. It is not safe for concurrent use.
type Walk struct {
	first  *url.URL
	given  jobfile.Pagination
	rule   rule
	at     position
	recent *simplelru.LRU[string, struct{}]
}

// position is the checkpoint of a walk.
type position struct {
	Over     State               `json:"over,omitempty"`
	Found    *jobfile.Pagination `json:"found,omitempty"` // by auto
	Pages    int                 `json:"pages,omitempty"`
	Records  int                 `json:"records,omitempty"`
	Empty    int                 `json:"empty,omitempty"`  // pages in a row
	Full     int                 `json:"full,omitempty"`   // records of a full page; 0: unknown
	Number   int                 `json:"number,omitempty"` // of the next page, or its offset
	Cursor   string              `json:"cursor,omitempty"`
	URL      string              `json:"url,omitempty"` // path and query
	Digest   string              `json:"digest,omitempty"`
	Total    int64               `json:"total,omitempty"`
	Fallen   bool                `json:"fallen,omitempty"` // the total
	Places   cycle               `json:"places,omitzero"`
	Contents cycle               `json:"contents,omitzero"`
}

// Begin is a walk at its first page.
func Begin(p jobfile.Pagination, first *url.URL) (*Walk, error) {
	if first.Scheme == "" || first.Host == "" {
		return nil, errors.New("the URL of the first page has no scheme or host")
	}
	u := *first
	u.Fragment, u.RawFragment = "", ""
	w := &Walk{first: &u, given: p, at: position{Full: p.Size, Number: p.First}}
	w.recent, _ = simplelru.NewLRU[string, struct{}](maxRecent, nil) // fails for sizes below 1 only
	if err := w.setRule(p); err != nil {
		return nil, err
	}
	w.at.Places.add(short(address(&u)))
	w.isRecent(short(address(&u)))
	return w, nil
}

// Restore is a walk at a checkpoint. Without one it is at its first page.
func Restore(p jobfile.Pagination, first *url.URL, checkpoint []byte) (*Walk, error) {
	w, err := Begin(p, first)
	if err != nil || len(checkpoint) == 0 {
		return w, err
	}
	w.at = position{}
	if err := json.Unmarshal(checkpoint, &w.at); err != nil {
		return nil, fmt.Errorf("the checkpoint of the walk cannot be read: %w", err)
	}
	if w.at.Found != nil {
		if err := w.setRule(*w.at.Found); err != nil {
			return nil, err
		}
	}
	if w.at.URL != "" {
		if _, err := at(w.first, w.at.URL); err != nil {
			return nil, fmt.Errorf("the checkpoint of the walk: %w", err)
		}
	}
	w.isRecent(w.at.place(w.rule, w.first)) // so that a page that leads to itself is found at once
	return w, nil
}

func (w *Walk) setRule(p jobfile.Pagination) (err error) {
	w.rule, err = ruleOf(p)
	return err
}

// Checkpoint returns the state that Restore needs.
func (w *Walk) Checkpoint() []byte {
	text, err := json.Marshal(w.at)
	if err != nil {
		panic(err) // it has texts and numbers alone
	}
	return text
}

// Pages returns the number of pages that were answered.
func (w *Walk) Pages() int { return w.at.Pages }

// Next is the URL to ask for, nil if the walk is over.
func (w *Walk) Next() *url.URL {
	if w.at.Over != "" {
		return nil
	}
	r, u := w.rule, w.first
	switch r.Style {
	case jobfile.LinkPages, jobfile.NextPages:
		if w.at.URL != "" {
			next, err := at(w.first, w.at.URL)
			if err != nil {
				panic(err) // Restore and Answer let none pass
			}
			return next
		}
	case jobfile.OffsetPages, jobfile.PagePages:
		u = withParam(u, r.Param, strconv.Itoa(w.at.Number))
	case jobfile.CursorPages:
		if w.at.Cursor != "" {
			u = withParam(u, r.Param, w.at.Cursor)
		}
	}
	if r.SizeParam != "" && r.Size > 0 {
		u = withParam(u, r.SizeParam, strconv.Itoa(r.Size))
	}
	copied := *u
	return &copied
}

// Answer moves the walk past a page. An error leaves the walk unchanged.
func (w *Walk) Answer(p Page) (Step, error) {
	if w.at.Over != "" {
		return Step{}, errors.New("the walk is over")
	}
	at, r, found := w.at, w.rule, ""
	if r.Style == jobfile.AutoPages {
		var known jobfile.Pagination
		known, found = recognise(w.given, w.first, p)
		var err error
		if r, err = ruleOf(known); err != nil {
			return Step{}, err
		}
		at.Found, at.Number, at.Full = &known, known.First, known.Size
	}
	at.Pages++
	at.Records += p.Records
	at.Empty++
	if p.Records > 0 {
		at.Empty = 0
	}
	said, err := r.hear(p)
	if err != nil {
		return Step{}, fmt.Errorf("page %d: %w", at.Pages, err)
	}
	if said.total >= 0 {
		at.Fallen = at.Fallen || said.total < at.Total
		at.Total = said.total
	}
	step := r.move(&at, p, said, w.first)
	if step.State == Going {
		step = w.repeats(&at, p, r)
	}
	step = w.judged(step, at, said, r)
	step.Found = found
	if step.State != Going {
		at.Over = step.State
	}
	w.at, w.rule = at, r
	return step, nil
}

// repeats says whether the walk comes to a place or a content where it has been.
func (w *Walk) repeats(at *position, p Page, r rule) Step {
	if place := at.place(r, w.first); place != "" {
		if seen := w.isRecent(place); at.Places.add(place) || seen {
			return incomplete("the next page is one that was read before: the %s comes again", r.follows())
		}
	}
	if p.Records > 0 && p.Digest != "" {
		same := p.Digest == at.Digest
		if at.Contents.add(p.Digest) || same {
			return incomplete("page %d has the same records as a page before: %s", at.Pages, r.suspect())
		}
		at.Digest = p.Digest
	}
	return Step{State: Going}
}

// place returns what tells the next page from others, "" if pages are counted.
func (p *position) place(r rule, first *url.URL) string {
	switch r.Style {
	case jobfile.CursorPages:
		return short("cursor " + p.Cursor)
	case jobfile.LinkPages, jobfile.NextPages:
		return short(origin(first) + " " + p.URL)
	}
	return ""
}

// judged changes a step by what is known of the whole walk.
func (w *Walk) judged(s Step, at position, said said, r rule) Step {
	switch came := at.came(r); {
	case s.State == Going && at.Empty >= MaxEmpty:
		return incomplete("%d pages in a row are empty, though the server names a next one", at.Empty)
	case s.State == Going && w.given.MaxPages > 0 && at.Pages >= w.given.MaxPages:
		return incomplete("there are more than %d pages: write a higher \"max_pages\"", w.given.MaxPages)
	case s.State == Complete && said.more == yes:
		return incomplete("%s, though the server says that there are more records", s.Reason)
	case s.State == Complete && said.total > came:
		return incomplete("%s, and the server says that there are %d records, of which %d came: leave \"total\" out if it counts records that are not shown", s.Reason, said.total, came)
	case s.State == Complete && at.Fallen && r.counted():
		return incomplete("the total fell while pages were read, so that records may have moved to pages that were read before")
	}
	return s
}

// Missing moves the walk past a page that does not exist: its answer was 404 or 410. The first
// page has to be there.
func (w *Walk) Missing() (Step, error) {
	if w.at.Pages == 0 || w.at.Over != "" {
		return Step{}, errors.New("the first page does not exist")
	}
	s := complete("page %d does not exist", w.at.Pages+1)
	if !w.rule.counted() {
		s = incomplete("page %d does not exist, though the page before leads to it", w.at.Pages+1)
	}
	s = w.judged(s, w.at, said{total: max(w.at.Total, -1)}, w.rule)
	w.at.Over = s.State
	return s, nil
}

func complete(format string, values ...any) Step {
	return Step{State: Complete, Reason: fmt.Sprintf(format, values...)}
}

func incomplete(format string, values ...any) Step {
	return Step{State: Incomplete, Reason: fmt.Sprintf(format, values...)}
}

// maxRecent is the number of positions that a walk remembers in memory.
const maxRecent = 10_000

// cycle finds a repetition in a sequence with one remembered element (Brent's algorithm): an
// element is compared with the one at the last power of two.
type cycle struct {
	Mark  string `json:"mark,omitempty"`
	Steps int    `json:"steps,omitempty"` // since Mark
	Power int    `json:"power,omitempty"`
}

// add adds an element, and says whether it is the remembered one.
func (c *cycle) add(element string) bool {
	if c.Mark == element {
		return true
	}
	c.Steps++
	if c.Steps >= c.Power {
		c.Mark, c.Steps, c.Power = element, 0, max(2*c.Power, 1)
	}
	return false
}

// isRecent adds an element to the last ones, and says whether it was among them.
func (w *Walk) isRecent(element string) bool {
	if w.recent.Contains(element) {
		return true
	}
	w.recent.Add(element, struct{}{})
	return false
}

// short is a hash that stands for a cursor or a URL.
func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:10])
}
