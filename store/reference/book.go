package reference

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/abide-proxy/abide/store"
)

// Book has what a store has written down of one site. It is a value: each method returns another
// Book. It is the sequential model by which a history of a store's operations is checked.
// The zero value is a new store.
type Book struct {
	budgets map[string]*record         // by the name under which they are written down
	until   map[string]time.Time       // when each of them may be dropped, and is not missed
	rows    map[string]*store.JointRow // :: key of a Count
	ended   map[string]bool            // :: instance whose process has ended

	life  string    // generation; "": the next operation begins one
	since time.Time // when that began
	last  time.Time // of the latest write of a Count
	marks int       // names that were made for what no reply has named yet
	saved *Book     // what a replica has
}

// unnamed begins the name of a generation or birth mark that no reply has shown yet, because the
// reply to the operation that made it was lost.
const unnamed = "unnamed "

func (b *Book) clone() *Book {
	c := *b
	c.budgets, c.until, c.rows, c.ended = maps.Clone(b.budgets), maps.Clone(b.until), maps.Clone(b.rows), maps.Clone(b.ended)
	if c.budgets == nil {
		c.budgets, c.until, c.rows, c.ended = map[string]*record{}, map[string]time.Time{}, map[string]*store.JointRow{}, map[string]bool{}
	}
	return &c
}

// Same tells whether two Books are the same.
func (b *Book) Same(o *Book) bool { return reflect.DeepEqual(b, o) }

// mark makes a name that no reply has shown yet.
func (b *Book) mark() string {
	b.marks++
	return fmt.Sprint(unnamed, b.marks)
}

// live begins a generation, if there is none, and tells whether the present one is the one that a
// reply shows, "" if there was no reply.
func (b *Book) live(shown string, now time.Time) bool {
	switch {
	case b.life == "":
		b.life, b.since = cmp.Or(shown, b.mark()), now
	case shown != "" && strings.HasPrefix(b.life, unnamed):
		for name, r := range b.budgets {
			if r.Life == b.life {
				named := r.clone()
				named.Life = shown
				b.budgets[name] = named
			}
		}
		b.life = shown
	}
	if b.since.After(now) { // the clock was set back
		b.since = now
	}
	return shown == "" || shown == b.life
}

// Pulse returns the Book after a pulse, and what is wrong with its answer. p is nil if there was none.
func (b *Book) Pulse(now time.Time, p *store.Pulse) (*Book, string) {
	next, shown := b.clone(), ""
	if p != nil {
		shown = p.Generation
	}
	if !next.live(shown, now) {
		return b, fmt.Sprintf("the generation is %s, not %s", shown, next.life)
	}
	if p != nil && p.Since != now.Sub(next.since) {
		return b, fmt.Sprintf("the generation is %v old, not %v", p.Since, now.Sub(next.since))
	}
	return next, ""
}

// Exchange returns the Book after an exchange at a time by the store's clock, and what is wrong with its
// reply. reply is nil if there was none: then the exchange may have been done, and is now.
func (b *Book) Exchange(batch *store.Batch, now time.Time, reply *store.Reply) (*Book, string) {
	now = time.UnixMicro(now.UnixMicro())
	next, shown := b.clone(), ""
	if reply != nil {
		shown = reply.Generation
		if !reply.Now.Equal(now) || len(reply.Answers) != len(batch.Asks) {
			return b, fmt.Sprintf("at %v it has %d answers for %v and %d asks", reply.Now, len(reply.Answers), now, len(batch.Asks))
		}
	}
	if !next.live(shown, now) {
		return b, fmt.Sprintf("the generation is %s, not %s", shown, next.life)
	}
	for i := range batch.Asks {
		var said *store.Answer
		if reply != nil {
			said = &reply.Answers[i]
		}
		if wrong := next.ask(batch, &batch.Asks[i], now, said); wrong != "" {
			return b, wrong
		}
	}
	return next, ""
}

// ask does one Ask, and says what is wrong with its answer. said is nil if there was none.
func (b *Book) ask(batch *store.Batch, ask *store.Ask, now time.Time, said *store.Answer) string {
	exact := ask.Exact()
	a := &exact
	if a.Kind == store.Count {
		if said == nil && now.Before(b.last) {
			now = b.last // nobody knows when it was done
		}
		// A later write never has an earlier time: what was spent before it would count for less long.
		if now.Before(b.last) {
			return fmt.Sprintf("it was written at %v, after a write at %v", now, b.last)
		}
		b.last = now
	}
	if a.Kind == store.Count {
		r, want := store.AnswerJoint(b.rows, a, batch.Instance, now, func(who string) bool { return !b.ended[who] })
		if want.Status == store.Done {
			b.rows[a.Key] = r
		}
		return differs(said, want)
	}
	name := a.Name()
	r := b.budgets[name]
	if r == nil {
		r = &record{}
	}
	t := turn{
		Instance: batch.Instance, Now: now.UnixMicro(), Foreign: foreign(batch, b.life), Life: b.life,
		Since: b.since.UnixMicro(), Birth: b.mark(), Known: !b.until[name].Before(now),
	}
	if said != nil && said.Birth != "" && said.Birth != r.Birth {
		t.Birth = said.Birth
	}
	want, after := decided(r, a, t)
	if wrong := differs(said, want); wrong != "" && strings.HasPrefix(r.Birth, unnamed) && t.Birth == said.Birth {
		// The mark is not a new one, but that of an operation whose reply was lost.
		named := r.clone()
		named.Birth, t.Birth = said.Birth, b.mark()
		want, after = decided(named, a, t)
	}
	if want.Status == store.Done || want.Status == store.Foreign {
		b.budgets[name] = after
		if after.Until != r.Until { // so Redis does it, which matters when that alone was lost
			b.until[name] = time.UnixMicro(after.Until)
		}
	}
	return differs(said, want)
}

// decided is decide for a copy of a record.
func decided(r *record, a *store.Ask, t turn) (store.Answer, *record) {
	after := r.clone()
	said, _ := decide(after, a, t)
	return said, after
}

func differs(said *store.Answer, want store.Answer) string {
	if said == nil || reflect.DeepEqual(*said, want) {
		return ""
	}
	return fmt.Sprintf("it answers %+v, not %+v", *said, want)
}

// End returns the Book after the process of an instance has ended.
func (b *Book) End(instance string) *Book {
	next := b.clone()
	next.ended[instance] = true
	return next
}

// Lose returns the Book of a store that has lost everything, and knows it.
func (b *Book) Lose() *Book { return &Book{marks: b.marks, saved: b.saved} }

// Evict returns the Book without the site's budgets, without that there were some, or without the name of
// its generation.
func (b *Book) Evict(budgets, ends, life bool) *Book {
	next := b.clone()
	if budgets {
		clear(next.budgets)
	}
	if ends {
		clear(next.until)
	}
	if life {
		next.life = ""
	}
	return next
}

// Save returns the Book with a copy of itself, which a replica has.
func (b *Book) Save() *Book {
	next := b.clone()
	next.saved = b
	return next
}

// FailOver returns the Book of the replica, which has what was last saved and begins a generation.
func (b *Book) FailOver() *Book {
	next := b.saved.clone()
	next.life, next.marks, next.saved = "", b.marks, nil
	return next
}
