package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// severalLimit is the amount of a budget, and severalPart the most of it that a
// process asks for at once.
const (
	severalLimit = 3000
	severalPart  = 7
)

// tally is the Merge of a budget whose state counts the used units.
func tally(_ time.Time, state []byte, uses []Use, lapsed, others int64) ([]byte, int64, time.Time) {
	n, _ := strconv.ParseInt(string(state), 10, 64)
	for _, u := range uses {
		n += u.N
	}
	n += lapsed
	return strconv.AppendInt(nil, n, 10), max(severalLimit-n-others, 0), time.Time{}
}

// spender uses a budget as a lease does.
type spender struct {
	file     *File
	instance string
	seq      uint64
	owned    bool
	known    int64 // used by all, while it is owned
	ahead    int64 // may be used, and was not
}

// next says that all of ahead was used, and answers how much more may be.
func (s *spender) next(ctx context.Context) (int64, error) {
	s.seq++
	used := s.ahead
	s.known += used
	a := Ask{Key: "k", Kind: Count, Seq: s.seq, Want: severalPart, Least: 1, Waits: 1, Joint: &Joint{Owned: s.owned, Merge: tally}}
	if used > 0 {
		a.Joint.Uses = []Use{{Seq: s.seq, N: used}}
	}
	if a.State = strconv.AppendInt(nil, s.known, 10); s.owned {
		a.Want = min(a.Want, severalLimit-s.known)
	}
	r, err := s.file.Exchange(ctx, []Batch{{Site: "s", Instance: s.instance, Asks: []Ask{a}}})
	if err != nil {
		return 0, err
	}
	said := r[0].Answers[0]
	if said.Status != Done {
		return 0, fmt.Errorf("%+v", said)
	}
	if said.State != nil {
		s.known, _ = strconv.ParseInt(string(said.State), 10, 64)
	}
	s.owned, s.ahead = said.Holders == 1, said.Granted
	return s.ahead, nil
}

// spendAll uses what there is, and says so, until nothing is left for a while.
func spendAll(path string) {
	ctx, id := context.Background(), fmt.Sprint("p", os.Getpid())
	f, err := OpenFile(ctx, path, FileOptions{Strict: true, Instance: id})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	s, empty := &spender{file: f, instance: id}, 0
	for empty < 100 {
		n, err := s.next(ctx)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(4)
		}
		for range n {
			fmt.Println("one")
		}
		if empty++; n > 0 {
			empty = 0
		}
	}
	if err := f.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(5)
	}
	fmt.Println("all")
}

// Processes that share a file spend a budget once, all of it but for what the killed ones
// had been granted.
func TestProcessesThatAreKilledSpendABudgetOnce(t *testing.T) {
	if path := os.Getenv(childOf); path != "" {
		spendAll(path)
		return
	}
	path := newPath(t)
	f := openFile(t, path, FileOptions{}) // another process that has it all the time
	var mu sync.Mutex
	var all sync.WaitGroup
	spent, kills, whole := 0, 0, false
	for range 3 {
		all.Go(func() {
			for tries := 10; ; tries++ {
				c := child(t, t.Name(), path)
				out, err := c.StdoutPipe()
				if err != nil || c.Start() != nil {
					t.Error(err)
					return
				}
				killed := make(chan struct{})
				lives := time.Duration(20+rand.IntN(300)) * time.Millisecond * time.Duration(tries) / 10 // a busy machine takes longer to start one
				time.AfterFunc(lives, func() { _ = c.Process.Kill(); close(killed) })
				n, done := 0, false
				for in := bufio.NewScanner(out); in.Scan(); {
					n += strings.Count(in.Text(), "one")
					done = done || in.Text() == "all"
				}
				err = c.Wait()
				<-killed
				if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode() > 0 {
					t.Errorf("it ended with %v", err)
					return
				}
				mu.Lock()
				spent += n
				whole = whole || done
				if !done {
					kills++
				}
				done = whole
				mu.Unlock()
				if done {
					return
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d of %d, %d kills", spent, severalLimit, kills)
	if spent > severalLimit {
		t.Errorf("%d went of %d", spent, severalLimit)
	}
	// A killed one may have used what it had, and not said so.
	if least := severalLimit - kills*2*severalPart; spent < least {
		t.Errorf("%d went, less than %d", spent, least)
	}
	if others := f.others(); len(others) > 0 {
		t.Errorf("%+v are there", others)
	}
	f.Close()
	if left, _ := filepath.Glob(path + processInfix + "*"); len(left) > 0 {
		t.Errorf("there is %v", left)
	}
}

// A pulse counts the processes that use a file, whatever they say, and they are listed.
func TestAPulseOfAFileCountsTheProcessesThatUseIt(t *testing.T) {
	path, now := newPath(t), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f := openFile(t, path, FileOptions{Instance: "a", Name: "host: 1", Now: func() time.Time { return now }})
	check := func(want ...Member) Pulse {
		t.Helper()
		for i := range want {
			want[i].Seen = time.UnixMicro(now.UnixMicro())
		}
		p, err := f.Pulse(t.Context(), Member{ID: "another", Gone: true})
		all, err2 := f.Members(t.Context())
		if err = errors.Join(err, err2); err != nil || p.Members != len(want) || !slices.Equal(all, want) || !p.Now.Equal(now) {
			t.Errorf("%+v, %+v, want %+v: %v", p, all, want, err)
		}
		return p
	}
	before := check(Member{ID: "a", Name: "host: 1"})
	other := openFile(t, path, FileOptions{Instance: "b"})
	now = now.Add(time.Second)
	after := check(Member{ID: "a", Name: "host: 1"}, Member{ID: "b", Name: "b"})
	if after.Since-before.Since != time.Second || after.Generation == "" || after.Generation != before.Generation {
		t.Errorf("%+v after %+v", after, before)
	}
	other.Close()
	check(Member{ID: "a", Name: "host: 1"})
}

// Files that are open at the same time, opened and closed at any moment, spend a budget
// once and to the end.
func TestFilesOfOnePathSpendABudgetOnce(t *testing.T) {
	path := newPath(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	spent := map[int]int64{}
	for i := range 4 {
		all.Go(func() {
			for life := 0; ; life++ {
				id := fmt.Sprintf("p%d-%d", i, life)
				f, err := OpenFile(t.Context(), path, FileOptions{pragmas: careless, Instance: id})
				if err != nil {
					t.Error(err)
					return
				}
				s, empty := &spender{file: f, instance: id}, 0
				for asks := 0; asks < 50 || s.ahead > 0; asks++ { // what it has is used before it ends
					n, err := s.next(t.Context())
					if err != nil {
						t.Error(err)
						break
					}
					mu.Lock()
					spent[i] += n
					mu.Unlock()
					if empty++; n > 0 {
						empty = 0
					}
					if asks >= 50 && n > 0 {
						continue
					}
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
				if empty >= 30 || t.Failed() {
					return
				}
			}
		})
	}
	all.Wait()
	total := int64(0)
	for _, n := range spent {
		total += n
	}
	t.Logf("%v", spent)
	if total != severalLimit {
		t.Errorf("%d went of %d", total, severalLimit)
	}
}

// What is left is divided among those that wait for it, and who asks again gets a part
// of the rest.
func TestWhatIsLeftIsDividedAmongThoseThatWait(t *testing.T) {
	lives := func(string) bool { return true }
	var r *JointRow
	granted, left, seq := map[string]int64{}, int64(0), uint64(0)
	ask := func(who string) {
		seq++
		j := &Joint{Keep: granted[who], Merge: func(_ time.Time, _ []byte, _ []Use, _, others int64) ([]byte, int64, time.Time) {
			return []byte("x"), max(left-others, 0), time.Time{}
		}}
		var said Answer
		r, said = AnswerJoint(map[string]*JointRow{"k": r}, &Ask{Key: "k", Kind: Count, Seq: seq, Want: 100, Least: 1, Waits: 1, Joint: j}, who, time.UnixMicro(1e15+int64(seq)), lives)
		granted[who] = said.Granted
	}
	for _, who := range []string{"a", "b", "c"} {
		ask(who) // nothing is left
	}
	left = 20
	for _, who := range []string{"a", "b", "c"} {
		ask(who)
		if granted[who] < 3 || granted[who] > 10 {
			t.Errorf("%s got %d", who, granted[who])
		}
	}
	if total := granted["a"] + granted["b"] + granted["c"]; total > 20 {
		t.Errorf("%v", granted)
	}
}

// Who has got all that it asked for a moment ago is expected to want more, so that the first that asks for much does not
// get all.
func TestWhoAskedAMomentAgoGetsAPart(t *testing.T) {
	for after, most := range map[time.Duration]int64{time.Millisecond: 6, time.Second: 16} {
		var r *JointRow
		at, seq := time.UnixMicro(1e15), uint64(0)
		ask := func(who string, want int64) int64 {
			seq++
			j := &Joint{Merge: func(_ time.Time, _ []byte, _ []Use, _, others int64) ([]byte, int64, time.Time) {
				return []byte("x"), 20 - others, time.Time{}
			}}
			var said Answer
			r, said = AnswerJoint(map[string]*JointRow{"k": r}, &Ask{Key: "k", Kind: Count, Seq: seq, Want: want, Least: 1, Waits: 1, Joint: j}, who, at, func(string) bool { return true })
			return said.Granted
		}
		for _, who := range []string{"a", "b", "c"} {
			ask(who, 1)
		}
		at = at.Add(after)
		if granted := ask("a", 16); granted != most {
			t.Errorf("after %v: %d", after, granted)
		}
	}
}
