// Package paginate finds the next page of a walk: the pages of one unit of a job, one after
// another. It sends nothing.
//
//	w, err := paginate.New(job.Paginate, first, body, checkpoint, learned)
//	for u := w.Next(); u != nil; u = w.Next() {
//		answer := …                                // ask for u, with w.Body()
//		step, err := w.Answer(paginate.Page{URL: u, Header: answer.Header, Body: body,
//			Records: len(list), Digest: records.Digest(list)})
//		…                                          // one transaction: list and w.Checkpoint(now)
//	}
//
// A page that fails is not told to the walk, so that Next stays what it is. If the transaction
// fails, New makes the walk anew from the checkpoint before. An answer 404 behind the
// first page is told by Missing, and one of 400 as what may mean the same.
//
// # When a walk is over
//
// docs/jobs.md, section "When a unit is complete", has the rules. Besides:
//
//   - Records or a place that come again end a walk as incomplete, also after a restart, and so do MaxEmpty empty pages in a row.
//   - A total that falls while pages are counted says that records may have moved to pages that were read.
//   - A Next, More, Total or Header that no answer of the job has had is an ErrPath at the end of a
//     walk with records: nobody knows whether pages are missing.
//   - Servers give fewer records than they are asked for, if Size is more than they allow: offsets
//     move by what came, a short page does not end a walk while a total or More promises more, and
//     a first page whose length looks like a maximum (100, 250, 1024) is followed by one more
//     request. A total that is too low does not end a walk while pages are full.
//   - Where neither the job nor its URL says where pages begin, a walk begins with page 0, until the same Learned knows that this
//     is empty, does not exist or is the same as page 1, so that the server counts from 1, or that it is another page.
package paginate

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/abide-proxy/abide/internal/shorten"
	"github.com/abide-proxy/abide/jobs/records"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// MaxEmpty bounds the number of empty pages in a row.
const MaxEmpty = 100

// Page is an answer.
type Page struct {
	URL     *url.URL // that was asked
	Header  http.Header
	Body    records.Value
	Whole   bool   // the body is itself the record
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
	Again  bool   // the records are those of the page before, page 0
}

// Walk goes from page to page. It is not safe for concurrent use.
type Walk struct {
	Anew bool // it begins again, as its checkpoint is that of another pagination or request

	first   *url.URL
	body    []byte // of the first page
	given   jobfile.Pagination
	rule    rule
	at      position
	recent  *simplelru.LRU[string, struct{}]
	learned *Learned
}

// Learned holds what the walks of one job have found out about its server. The zero value knows
// nothing. It is safe for concurrent use.
type Learned struct {
	shown  atomic.Int32 // keys: the paths that an answer has had
	begins atomic.Int32 // 1 more than the number of the first page of a server; 0: unknown
}

// Begins notes the number of the first page of the server, 0 or 1.
func (l *Learned) Begins(first int32) { l.begins.Store(first + 1) }

// position is the checkpoint of a walk.
type position struct {
	Of      string              `json:"of,omitempty"` // hash of what decides which page it is; "": an older release has saved it, and that is not known
	At      int64               `json:"at,omitempty"` // Unix seconds, of the last page
	Over    State               `json:"over,omitempty"`
	Found   *jobfile.Pagination `json:"found,omitempty"` // by auto
	Pages   int                 `json:"pages,omitempty"`
	Records int                 `json:"records,omitempty"`
	Empty   int                 `json:"empty,omitempty"`  // pages in a row
	Full    int                 `json:"full,omitempty"`   // records of a full page; 0: unknown
	Number  int                 `json:"number,omitempty"` // of the next page, or its offset
	Cursor  string              `json:"cursor,omitempty"` // JSON, if it stands in a body
	URL     string              `json:"url,omitempty"`    // path and query
	Digest  string              `json:"digest,omitempty"`
	Total   int64               `json:"total,omitempty"`
	Fallen  bool                `json:"fallen,omitempty"` // the total
	Shown   keys                `json:"shown,omitempty"`
	Probing bool                `json:"probing,omitempty"` // page 1 was not answered, and the server may count from 0 or from 1
}

// New is a walk at a checkpoint, or, without one or with that of another pagination or request, at its first page, which is
// asked for by the URL first with the body. learned is that of all walks of the job.
func New(p jobfile.Pagination, first *url.URL, body, checkpoint []byte, learned *Learned) (w *Walk, err error) {
	u := *first
	u.Fragment, u.RawFragment = "", ""
	w = &Walk{first: &u, body: body, given: p, learned: learned}
	if p.First == jobfile.UnknownFirst {
		n, has := begins(p, first, body)
		known := learned.begins.Load()
		w.at.Probing = !has && known == 0 && p.Style == jobfile.PagePages
		if w.given.First = n; !has && p.Style == jobfile.PagePages {
			w.given.First = int(max(known-1, 0))
		}
	}
	pages := p
	pages.More, pages.Total, pages.MaxPages, pages.Unchecked = "", "", 0, false // decide about the end
	w.at.Of, w.at.Full, w.at.Number = shorten.Hash(hashed, fmt.Sprint(pages, &u, string(body))), p.Size, w.given.First
	w.recent, _ = simplelru.NewLRU[string, struct{}](maxRecent, nil) // fails for sizes below 1 only
	w.isRecent(shorten.Hash(hashed, address(&u)))
	if len(checkpoint) > 0 {
		var kept position
		if err := json.Unmarshal(checkpoint, &kept); err != nil {
			return nil, fmt.Errorf("the checkpoint of the walk cannot be read: %w", err)
		}
		if w.Anew = kept.Of != w.at.Of; !w.Anew {
			w.at = kept
		}
	}
	if w.rule = (rule{w.given}); w.at.Found != nil {
		w.rule = rule{*w.at.Found}
	}
	if _, err := at(w.first, w.at.URL); err != nil && w.at.URL != "" {
		return nil, fmt.Errorf("the checkpoint of the walk: %w", err)
	}
	w.isRecent(w.at.place(w.rule, w.first)) // so that a page that leads to itself is found at once
	return w, nil
}

// begins returns the number of the page, or the offset, that the first request of a walk has, if it has one.
func begins(p jobfile.Pagination, first *url.URL, body []byte) (n int, has bool) {
	text := first.Query().Get(p.Param)
	if p.In == jobfile.InBody {
		form, _ := url.ParseQuery(string(body)) // what cannot be read has no parameters
		text = form.Get(p.Param)
		if v, err := records.Read("application/json", slices.Clone(body)); err == nil {
			v, _ = v.Get(p.Param)
			text, _ = v.Text()
		}
	}
	n, err := strconv.Atoi(text)
	return max(n, 0), err == nil && n >= 0
}

// Checkpoint returns the state that New needs, where the last page came at a time.
func (w *Walk) Checkpoint(now time.Time) []byte {
	w.at.At = now.Unix()
	text, _ := json.Marshal(w.at) // texts and numbers have no error
	return text
}

// placeLasts is the time for which a walk goes on at a place that moves with the list: records that come or go at its beginning
// move all others. A nightly run that has some hours goes on where the last one ended, but not where the last one failed at its begin.
const placeLasts = 20 * time.Hour

// Expired reports whether the place of a walk that was saved says no longer which records come next, or whether what has come is
// too old where it takes the place of all that the unit had.
func (w *Walk) Expired(now time.Time, replaces bool) bool {
	return w.at.Pages > 0 && w.at.Over == "" && now.Sub(time.Unix(w.at.At, 0)) > placeLasts && (replaces || w.moves())
}

// moves tells whether the next page is known by the number of pages or records before it. Such a number in a cursor or URL is greater
// than in the first request, by no more than what came: another one is that of a record or of a time, and stays with it.
func (w *Walk) moves() bool {
	first := numbersOf(w.first, w.body)
	for name, values := range numbersOf(w.Next(), w.Body()) {
		if slices.Contains(append(sizeParams, w.rule.SizeParam), name) {
			continue
		}
		begun := numbersIn(first.Get(name))
		for i, n := range numbersIn(values[0]) {
			if i < len(begun) {
				n -= begun[i]
			}
			if n > 0 && n <= max(w.at.Pages, w.at.Records)+1 {
				return true
			}
		}
	}
	return w.rule.counted()
}

// date finds texts whose numbers are those of a time.
var date = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}`)

// numbersIn returns the numbers that stand alone in a text, or in what it has as base64, such as "offset:100".
func numbersIn(text string) (list []int) {
	plain, err := base64.RawURLEncoding.DecodeString(strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(text))
	if isText := !bytes.ContainsFunc(plain, func(r rune) bool { return r < ' ' || r > '~' }); err == nil && isText {
		text = string(plain)
	}
	if date.MatchString(text) {
		return nil
	}
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if n, err := strconv.Atoi(part); err == nil {
			list = append(list, n)
		}
	}
	return list
}

// numbersOf has what may be a number in a request: its parameters, the parts of its path by their places, and the members of its body.
func numbersOf(u *url.URL, body []byte) url.Values {
	all := u.Query()
	for i, part := range strings.Split(u.Path, "/") {
		all.Set(strconv.Itoa(i), part)
	}
	if v, err := records.Read("application/json", slices.Clone(body)); err == nil {
		v.EachLeaf(func(path string, leaf records.Value) {
			text, _ := leaf.Text()
			all.Set(path, text)
		})
	}
	return all
}

// Pages returns the number of pages that were answered.
func (w *Walk) Pages() int { return w.at.Pages }

// Probes tells whether the next page may be none, because the server may count its pages from 1.
func (w *Walk) Probes() bool { return w.at.Probing }

// Next is the URL to ask for, nil if the walk is over.
func (w *Walk) Next() *url.URL {
	if w.at.Over != "" {
		return nil
	}
	if w.at.URL != "" {
		next, _ := at(w.first, w.at.URL) // New and Answer let none pass that cannot be read
		return next
	}
	u := w.first
	if w.rule.In != jobfile.InBody {
		for name, value := range w.parameters() {
			u = withParam(u, name, value)
		}
	}
	copied := *u
	return &copied
}

// Body is the body to ask with: that of the first page, with the parameters of the next one if they stand there.
func (w *Walk) Body() []byte {
	if w.rule.In != jobfile.InBody {
		return w.body
	}
	form := string(w.body)
	body, err := records.Read("application/json", slices.Clone(w.body))
	for name, value := range w.parameters() {
		if err == nil {
			body = body.With(name, records.Value(value))
			continue
		}
		if text, ok := records.Value(value).Text(); ok {
			value = text
		}
		form = withParam(&url.URL{RawQuery: form}, name, value).RawQuery
	}
	if err == nil {
		return body
	}
	return []byte(form)
}

// parameters yields the parameters of the next page: texts in a query, and JSON in a body.
func (w *Walk) parameters() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		r, value := w.rule, ""
		switch r.Style {
		case jobfile.OffsetPages, jobfile.PagePages:
			value = strconv.Itoa(w.at.Number)
		case jobfile.CursorPages:
			value = w.at.Cursor
		}
		if (value == "" || yield(r.Param, value)) && r.SizeParam != "" && r.Size > 0 {
			yield(r.SizeParam, strconv.Itoa(r.Size))
		}
	}
}

// Answer moves the walk past a page. An error leaves the walk unchanged.
func (w *Walk) Answer(p Page) (Step, error) {
	if w.at.Over != "" {
		return Step{}, errors.New("the walk is over")
	}
	at, r, found := w.at, w.rule, ""
	if r.Style == jobfile.AutoPages {
		var known jobfile.Pagination
		if known, found = Recognise(w.given, w.first, p); w.given.Unchecked {
			known.Total = "" // which may be another number
		}
		r = rule{known}
		at.Found, at.Number, at.Full = &known, known.First, known.Size
	}
	switch {
	case at.Probing && at.Number == 0 && p.Records == 0:
		w.at.Number = 1
		return Step{State: Going}, nil
	case at.Probing && at.Number == 1:
		at.Probing = false
		again := at.Pages == 1 && p.Digest == at.Digest // what page 0 had is page 1
		if p.Records > 0 {
			w.learned.Begins(map[bool]int32{true: 1, false: 0}[again || at.Pages == 0])
		}
		if again {
			w.at.Number, w.at.Probing = 2, false
			return Step{State: Going, Again: true}, nil
		}
	}
	at.Pages++
	at.Records += p.Records
	at.Empty++
	if p.Records > 0 {
		at.Empty = 0
	}
	said, err := r.hear(p, at.Pages, w.first)
	if err != nil {
		return Step{}, fmt.Errorf("page %d: %w", at.Pages, err)
	}
	if said.total >= 0 {
		at.Fallen = at.Fallen || said.total < at.Total && r.Total != ""
		at.Total = said.total
	}
	at.Shown |= said.shown
	w.learned.shown.Or(int32(said.shown))
	step := r.move(&at, p, said, w.first)
	if repeated := w.repeats(&at, p, r, step.State == Going); repeated.State != Going {
		step = repeated
	}
	step = w.judged(step, at, said, r)
	if err := r.missing(step, at, p, said, keys(w.learned.shown.Load())); err != nil {
		return Step{}, err
	}
	step.Found = found
	if step.State != Going {
		at.Over = step.State
	}
	w.at, w.rule = at, r
	return step, nil
}

// repeats says whether the walk comes to a place or a content where it has been.
func (w *Walk) repeats(at *position, p Page, r rule, going bool) Step {
	if place := at.place(r, w.first); place != "" && going {
		if w.isRecent(place) {
			return incomplete("the next page is one that was read before: the %s comes again", r.follows())
		}
	}
	if p.Records > 0 && p.Digest != "" {
		if w.isRecent("records "+p.Digest) || p.Digest == at.Digest {
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
		return shorten.Hash(hashed, "cursor "+p.Cursor)
	case jobfile.LinkPages, jobfile.NextPages:
		return shorten.Hash(hashed, policy.OriginOf(first)+" "+p.URL)
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
	case s.State == Complete && said.more == yes && said.by != "":
		return incomplete("%s, though more seems to follow: %s; write a style of paginate that follows, or \"check: off\"", s.Reason, said.by)
	case s.State == Complete && said.more == yes:
		return incomplete("%s, though the server says that there are more records", s.Reason)
	case s.State == Complete && at.Total > came:
		advice := `write "check: off" if that is another number`
		if w.given.Total != "" {
			advice = `leave "total" out, and write "check: off", if it counts records that are not shown`
		} else if at.Pages == 1 {
			advice = "write a style of paginate that leads to them (auto knows ?page=1 and ?offset=0 in the URL), or " + strings.TrimPrefix(advice, "write ")
		}
		return incomplete("%s, and %d records came, though the answer says that there are %d: %s", s.Reason, came, at.Total, advice)
	case s.State == Complete && at.Fallen && r.counted():
		return incomplete("the total fell while pages were read, so that records may have moved to pages that were read before")
	}
	return s
}

// Missing moves the walk past a page that does not exist. surely is false for an answer such as
// 400, which servers give behind the last page, and also where they give no more although there is
// more. The first page has to be there, unless it is page 0 of a server that counts from 1.
func (w *Walk) Missing(surely bool) (Step, error) {
	r := w.rule
	if w.at.Probing && w.at.Number == 0 {
		w.at.Number = 1
		return Step{State: Going}, nil
	}
	if w.at.Pages == 0 || w.at.Over != "" || !surely && !r.counted() {
		return Step{}, errors.New("the page should exist")
	}
	s := complete("page %d does not exist", w.at.Pages+1)
	switch {
	case !r.counted():
		s = incomplete("page %d does not exist, though the page before leads to it", w.at.Pages+1)
	case !surely && (w.at.Total <= 0 || w.at.came(r) < w.at.Total):
		s = incomplete("the server refuses page %d, which may be behind the last one, or behind what it shows: write \"total\" or \"size\"", w.at.Pages+1)
	}
	s = w.judged(s, w.at, said{total: -1}, r)
	w.at.Over = s.State
	return s, nil
}

func complete(format string, values ...any) Step {
	return Step{State: Complete, Reason: fmt.Sprintf(format, values...)}
}

func incomplete(format string, values ...any) Step {
	return Step{State: Incomplete, Reason: fmt.Sprintf(format, values...)}
}

// maxRecent is the number of places and contents of pages that a walk remembers in memory, and hashed the bytes of the hashes
// that stand for them.
const maxRecent, hashed = 10_000, 10

// isRecent adds an element to the last ones, and says whether it was among them.
func (w *Walk) isRecent(element string) bool {
	if w.recent.Contains(element) {
		return true
	}
	w.recent.Add(element, struct{}{})
	return false
}
