package tokens

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/abide-proxy/abide/policy"
)

// model is how long an account pauses, by the rules alone.
type model struct {
	whole  time.Time
	routes map[string]time.Time
}

// Whatever happens in whatever order, no token is ready before a time that anybody
// has named, nobody who is disabled is chosen, and the choice is the one that was
// throttled longest ago.
func TestNoTokenIsUsedBeforeItsTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "tokens")
		l := &Loaded{}
		for i := range n {
			l.Entries = append(l.Entries, entry{policy.Token{Label: fmt.Sprint("t", i), Secret: policy.NewSecret(fmt.Sprint("s", i))}, i + 1})
		}
		now := start
		p, err := New(now, policy.Pool{Name: "p", Put: bearer()}, l, nil)
		if err != nil {
			t.Fatal(err)
		}
		models := map[string]*model{}
		account := map[string]string{} // :: label → whose model
		throttled := map[string]time.Time{}
		for _, e := range l.Entries {
			models[e.Label] = &model{routes: map[string]time.Time{}}
			account[e.Label] = e.Label
		}
		disabled := map[string]bool{}
		route := rapid.SampledFrom([]string{"", "a", "b"})
		pick := func(name string) *Token { return p.Find(fmt.Sprint("t", rapid.IntRange(0, n-1).Draw(t, name))) }
		until := func() time.Time {
			return now.Add(time.Duration(rapid.IntRange(-5, 100).Draw(t, "for")) * time.Second)
		}
		pause := func(token *Token, r string, at time.Time) {
			m := models[account[token.Label()]]
			if r == "" && at.After(m.whole) {
				m.whole = at
			}
			if r != "" && at.After(m.routes[r]) {
				m.routes[r] = at
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "seconds")) * time.Second)
			},
			"cool": func(t *rapid.T) {
				token, r, at := pick("token"), route.Draw(t, "route"), until()
				p.Cool(now, token, r, at, "")
				pause(token, r, at)
				throttled[account[token.Label()]] = now
			},
			"spend": func(t *rapid.T) {
				token, r, at := pick("token"), route.Draw(t, "route"), until()
				p.Spend(now, token, r, at, "")
				pause(token, r, at)
			},
			"disable": func(*rapid.T) {
				token := pick("token")
				disabled[token.Label()] = true
				_, _ = p.Switch(token.Label(), "by the operator")
			},
			"enable": func(*rapid.T) {
				token := pick("token")
				disabled[token.Label()] = false
				_, _ = p.Switch(token.Label(), "")
			},
			"unite": func(t *rapid.T) {
				a, b := pick("one"), pick("other")
				x, y := account[a.Label()], account[b.Label()]
				if x == y {
					return
				}
				mx, my := models[x], models[y]
				for label, whose := range account {
					if whose == y {
						account[label] = x
					}
				}
				for i := range l.Entries {
					l.Entries[i].Account = account[l.Entries[i].Label]
				}
				if _, err := p.Reload(now, policy.Pool{Put: bearer()}, l); err != nil {
					t.Fatal(err)
				}
				if my.whole.After(mx.whole) && my.whole.After(now) {
					mx.whole = my.whole
				}
				for r, at := range my.routes {
					if at.After(mx.routes[r]) && at.After(now) {
						mx.routes[r] = at
					}
				}
				if throttled[y].After(throttled[x]) {
					throttled[x] = throttled[y]
				}
			},
			"reload": func(t *rapid.T) {
				l.Entries = rapid.Permutation(l.Entries).Draw(t, "order")
				if _, err := p.Reload(now, policy.Pool{Put: bearer()}, l); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				r := route.Draw(t, "asked")
				var ready []int
				set := p.Set()
				for i := range n {
					token := p.Find(fmt.Sprint("t", i))
					m := models[account[token.Label()]]
					want := m.whole
					if r != "" && m.routes[r].After(want) {
						want = m.routes[r]
					}
					s := p.Availability(now, token, r)
					switch {
					case disabled[token.Label()]:
						if s.State != Disabled || slices.Contains(set.Tokens(), token) {
							t.Fatalf("%s is %v", token, s)
						}
						continue
					case want.After(now):
						if s.State != Cooling && s.State != Spent || !s.Until.Equal(want) {
							t.Fatalf("%s is %v, not until %v", token, s, want)
						}
					case s.State != Ready || !s.Until.IsZero():
						t.Fatalf("%s is %v", token, s)
					default:
						ready = append(ready, slices.Index(set.Tokens(), token))
					}
				}
				if len(ready) == 0 {
					return
				}
				got := throttled[account[set.Tokens()[set.pick(ready, now)].Label()]]
				for _, i := range ready {
					if throttled[account[set.Tokens()[i].Label()]].Before(got) {
						t.Fatal("another was throttled longer ago")
					}
				}
			},
		})
	})
}

// However a dead token's answers come, it is tried a few times and then once for
// each time that its quarantine ends; a token that lives is always found.
func TestADeadTokenIsSeldomTried(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(t, "tokens")
		dead := rapid.IntRange(1, n-1).Draw(t, "dead")
		status := rapid.SampledFrom([]int{401, 403}).Draw(t, "status")
		l := &Loaded{}
		for i := range n {
			l.Entries = append(l.Entries, entry{policy.Token{Secret: policy.NewSecret(fmt.Sprint("s", i))}, i + 1})
		}
		now := start
		p, err := New(now, policy.Pool{Put: bearer()}, l, nil)
		if err != nil {
			t.Fatal(err)
		}
		set := p.Set()
		tries := make([]int, n)
		shown := 0
		for range 100 {
			now = now.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "pause")) * time.Second)
			var d Denials
			for {
				var ready []int
				for i, one := range set.Tokens() {
					if p.Availability(now, one, "").State == Ready {
						ready = append(ready, i)
					}
				}
				i := set.pickFor(ready, now, &d)
				token := set.Tokens()[i]
				if !p.Begin(now, token, "").IsZero() {
					t.Fatal("it was ready")
				}
				tries[i]++
				if i >= dead {
					p.Success(now, token, Answer{Sent: now}, &d)
					break
				}
				if !p.Deny(now, token, Answer{Status: status, Sent: now}, &d).Again {
					shown++
					break
				}
			}
		}
		hours := now.Sub(start).Hours()
		most := 3 // 10, 30, 70 minutes, …
		for quarantines, sum := 1, firstQuarantine; sum.Hours() < hours; quarantines++ {
			sum += firstQuarantine << quarantines
			most++
		}
		for i := range dead {
			if tries[i] > most {
				t.Fatalf("a dead token was tried %d times in %.1f hours", tries[i], hours)
			}
		}
		if shown > 1 { // where three of them were asked first
			t.Fatalf("%d clients have seen it", shown)
		}
	})
}
