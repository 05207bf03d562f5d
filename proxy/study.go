package proxy

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/abide-proxy/abide/learn"
	"github.com/abide-proxy/abide/ledger"
	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/queue"
)

// study is what an answer has taught.
type study struct {
	refusal hint
	at      queue.Scope // what the refusal is about
	word    string      // the kind of it, for the metrics
}

// study reads what an answer says of limits, and tells all who keep them.
func (s *Server) study(x *exchange, resp *http.Response) {
	t := &x.turn
	t.study = study{}
	if resp == nil {
		return
	}
	if t.plan == nil || !t.plan.learns || x.class == nil {
		t.study.plain(x, resp)
		return
	}
	request := learn.Request{Method: x.method, Host: x.target.Host, Path: x.path, Dialect: t.plan.dialect}
	var head []byte
	if learn.WantsBody(resp.StatusCode, request) {
		head = headOf(resp)
	}
	lesson := learn.Read(resp.StatusCode, resp.Header, head, request, x.answered)
	s.note(x, resp, &lesson)
}

// plain is for a site that nothing is learned from: Retry-After is all that counts.
func (st *study) plain(x *exchange, resp *http.Response) {
	if st.refusal = plainHint(resp.StatusCode, resp.Header, x.answered); st.refusal.is {
		st.at, st.word = x.turn.plan.scope(x), x.turn.plan.scopeWord(x)
	}
}

// note keeps a lesson: in the book of the site's routes, in the ledgers of the
// request's budget, and for the verdict.
func (s *Server) note(x *exchange, resp *http.Response, lesson *learn.Lesson) {
	t, now := &x.turn, x.answered
	budget, sent := x.budget(), x.sent
	if len(lesson.Limits) > 0 || lesson.Throttled {
		sent = t.permit.Granted() // as the ledgers know it
	}
	learned := x.book.learn(now, x.class, budget, sent, lesson)
	changed := learned.Changed
	var news []ledger.News
	if len(learned.Told) > 0 {
		news = make([]ledger.News, len(learned.Told))
		t.permit.Teach(s.teachings(x, &learned, sent, news))
		for i := range learned.Told {
			more, twins := x.book.heard(now, x.class, x.purse(&learned.Told[i]), learned.Told[i].ID, sent, news[i])
			changed = changed || more
			if twins != [2]string{} {
				s.unite(x, twins)
			}
			if told := &learned.Told[i]; t.token != nil && !told.Site && !told.Refused && told.Said.Remaining.Known && told.Said.Remaining.N < 1 {
				t.plan.pool.Spend(now, t.token, x.place(told.Title), told.Said.Reset, "nothing is left")
			}
		}
	}
	if lesson.Throttled {
		t.study.refusal = hintOf(lesson, resp.Header, now)
		changed = s.blame(x, lesson, &learned, budget, sent) || changed
	}
	if changed {
		s.gate.Replan(x.site, x.book.version())
	}
}

// teachings are what the ledgers hear of an answer.
func (s *Server) teachings(x *exchange, learned *ledger.Learned, sent time.Time, news []ledger.News) []queue.Teaching {
	p, now := x.turn.plan, x.answered
	list := make([]queue.Teaching, len(learned.Told))
	for i := range learned.Told {
		told := &learned.Told[i]
		one := p.learned(x.book, &ledger.Limit{ID: told.ID, Title: told.Title, Unit: told.Said.Unit})
		one.Key = x.purse(told)
		took := int64(0)
		for j := range x.class.Limits {
			if x.class.Limits[j].ID == told.ID {
				took = 1
			}
		}
		list[i] = queue.Teaching{Limit: one, Tell: func(_ time.Time, m limit.Meter) {
			if l, ok := m.(*ledger.Ledger); ok {
				news[i] = l.Hear(now, ledger.Answer{Sent: sent, N: took, Said: told.Said, Refused: told.Refused, RetryAt: told.RetryAt})
			}
		}}
	}
	return list
}

// purse is whose ledger of a limit an answer is about.
func (x *exchange) purse(told *ledger.Told) string {
	if told.Site && x.backend() == nil {
		return ""
	}
	return x.budget()
}

// unpaid is how long a token rests that a bill keeps from being used.
const unpaid = time.Hour

// hintOf is what a refusal's lesson says of the wait.
func hintOf(l *learn.Lesson, h http.Header, now time.Time) hint {
	r := hint{is: !l.Lock, lock: l.Lock, said: !l.RetryAt.IsZero()}
	switch {
	case r.said:
		r.wait = max(l.RetryAt.Sub(now), 0)
	case l.Permanent:
		r.said, r.wait = true, unpaid
	}
	r.why = whyRefused(r.said, h)
	return r
}

// blame finds what a refusal is about, and what follows. It tells whether limits
// have changed by it.
func (s *Server) blame(x *exchange, lesson *learn.Lesson, learned *ledger.Learned, budget string, sent time.Time) (changed bool) {
	t, now := &x.turn, x.answered
	r := &t.study.refusal
	if r.lock {
		return false
	}
	r.final = lesson.Permanent && (t.token == nil || len(t.set.Tokens()) < 2)
	for i := range learned.Told {
		if told := &learned.Told[i]; told.Refused {
			t.study.at, t.study.word = queue.Scope{Limit: learnedPrefix + told.ID, Key: x.purse(told)}, "route"
			switch {
			case told.Site:
				t.study.word = "site"
			case t.token != nil:
				t.study.word = "token"
			}
			return false
		}
	}
	t.study.at, t.study.word = t.plan.scope(x), t.plan.scopeWord(x)
	together := t.token != nil && x.book.shared(now, x.class.Route, budget)
	switch {
	case lesson.Scope == learn.Site, lesson.Documented == learn.Site, together:
		t.study.at, t.study.word = t.plan.party(x), "site"
	case t.token != nil && t.study.word == "site":
		t.study.at, t.study.word = scopeOfToken(t.token), "token"
	}
	if lesson.Permanent {
		return false
	}
	id, changed := x.book.unexplained(now, x.class, sent)
	if id != "" {
		one := t.plan.learned(x.book, &ledger.Limit{ID: id, Title: "what the site does not say", Kind: ledger.Hidden})
		one.Key = budget
		t.permit.Teach([]queue.Teaching{{Limit: one, Tell: func(_ time.Time, m limit.Meter) {
			if p, ok := m.(*ledger.Pace); ok {
				p.Refused(now, sent, lesson.RetryAt)
			}
		}}})
	}
	return changed
}

// unite makes one account of two tokens whose counts move together.
func (s *Server) unite(x *exchange, twins [2]string) {
	pool, set := x.turn.plan.pool, x.turn.set
	if pool == nil || set == nil {
		return
	}
	a, b := -1, -1
	list := set.Tokens()
	for i, t := range list {
		switch t.Budget() {
		case twins[0]:
			a = i
		case twins[1]:
			b = i
		}
	}
	if a < 0 || b < 0 || !pool.Unite(time.Now(), list[a], list[b]) {
		return
	}
	s.log.Warnf("the tokens %s and %s of %s are of one account: they share its limits from now on", list[a].Label(), list[b].Label(), pool.Name())
	go s.replanAll()
}

// mostPeek is how much of a body is looked at.
const mostPeek = 4 << 10

// headOf is the beginning of a body, which stays whole. What is compressed in a way
// that everybody knows is read.
func headOf(resp *http.Response) []byte {
	if resp.Body == nil || resp.Body == http.NoBody || resp.ContentLength == 0 {
		return nil
	}
	switch kind := resp.Header.Get("Content-Type"); {
	case kind == "", strings.HasPrefix(kind, "text/") && !strings.HasPrefix(kind, "text/event-stream"), strings.Contains(kind, "json"), strings.Contains(kind, "xml"):
	default:
		return nil
	}
	head := make([]byte, 0, mostPeek)
	var err error
	for err == nil && len(head) < mostPeek {
		var n int
		n, err = resp.Body.Read(head[len(head):mostPeek])
		head = head[:len(head)+n]
	}
	resp.Body = &peeked{head: head, err: err, ReadCloser: resp.Body}
	switch coding := resp.Header.Get("Content-Encoding"); coding {
	case "", "identity":
		return head
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(bytes.NewReader(head))
		if err != nil {
			return nil
		}
		plain := make([]byte, mostPeek)
		n, _ := io.ReadFull(z, plain)
		return plain[:n]
	}
	return nil
}

// peeked is a body of which the beginning was read already.
type peeked struct {
	head []byte
	err  error // that came with it
	io.ReadCloser
}

func (b *peeked) Read(p []byte) (int, error) {
	if len(b.head) > 0 {
		n := copy(p, b.head)
		b.head = b.head[n:]
		return n, nil
	}
	if b.err == nil {
		return b.ReadCloser.Read(p)
	}
	return 0, b.err
}
