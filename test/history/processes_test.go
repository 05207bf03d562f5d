package history

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/abide-proxy/abide/limit"
	"github.com/abide-proxy/abide/store"
	"github.com/abide-proxy/abide/store/budget/lease"
)

// childOf is set in processes that the test starts: to the path of the file, and their name.
const childOf = "ABIDE_HISTORY_CHILD"

// realSpec is the limit that real processes share, and realTime how long they do.
var realSpec = limit.Spec{As: limit.Rolling, Amount: 20, Window: 500 * time.Millisecond}

const realTime = 2 * time.Second

// killed is the process that does not end by itself.
const killed = "p0"

// line is what a process prints: a use, or an operation with what it asks of its only budget, when it
// begins and when it has ended. The function that an Ask has cannot be printed; see mergeOf.
type line struct {
	Use *use

	Begin, End   int64 // in nanoseconds since 1970, which orders the operations of all processes
	Since, Till  time.Time
	Reply        *store.Reply
	Seq          uint64
	Want         int64
	State        []byte
	Owned        bool
	Keep         int64
	Least, Waits int64
	Uses         []store.Use
}

// lineOf is the line of an operation that begins.
func lineOf(a *store.Ask) line {
	now, j := time.Now(), a.Joint
	return line{
		Begin: now.UnixNano(), End: math.MaxInt64, Since: now, Seq: a.Seq, Want: a.Want, State: a.State,
		Owned: j.Owned, Waits: a.Waits, Keep: j.Keep, Least: a.Least, Uses: j.Uses,
	}
}

// operation is that of a line.
func (l *line) operation(client int, who string, merge func(time.Time, []byte, []store.Use, int64, int64) ([]byte, int64, time.Time)) operation {
	j := &store.Joint{Owned: l.Owned, Keep: l.Keep, Uses: l.Uses, Merge: merge}
	return operation{
		Client: client, Begin: l.Begin, End: l.End, Since: l.Since, Till: l.Till, Reply: l.Reply,
		Batch: &store.Batch{Site: site, Instance: who, Asks: []store.Ask{{Key: key, Kind: store.Count, Seq: l.Seq, Want: l.Want, Least: l.Least, Waits: l.Waits, State: l.State, Joint: j}}},
	}
}

// work is the life of a process: it takes all that it can get, and prints what it does. killed kills itself
// between two operations, with what it has been granted.
func work(path, id string) error {
	file, err := store.OpenFile(context.Background(), path, store.FileOptions{Instance: id, Strict: true})
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	seq := uint64(0)
	account := lease.NewAccount(site, lease.Options{
		Instance: id, Seq: func() uint64 { seq++; return seq }, Members: func() int { return 2 },
	})
	m, err := limit.New(realSpec)
	if err != nil {
		return err
	}
	meter := account.Durable(key, realSpec, m, store.Origin{})
	for end := time.Now().Add(realTime); time.Now().Before(end); {
		now := time.Now()
		for {
			if at, ok := meter.When(now, 1); !ok || at.After(now) {
				break
			}
			meter.Take(now, 1)
			if err := out.Encode(line{Use: &use{now, 1}}); err != nil {
				return err
			}
		}
		meter.(interface{ Demand(time.Time, int64) }).Demand(now, 5)
		b, ok := account.Batch(now)
		if ok && id == killed && seq > 20 {
			self, err := os.FindProcess(os.Getpid())
			if err != nil {
				return err
			}
			_ = self.Kill()
			select {} // until that has come
		}
		if !ok {
			<-time.After(time.Millisecond)
			continue
		}
		l := lineOf(&b.Asks[0])
		if err := out.Encode(l); err != nil {
			return err
		}
		replies, err := file.Exchange(context.Background(), []store.Batch{b})
		if ended := time.Now(); err == nil {
			l.Reply, l.End, l.Till = &replies[0], ended.UnixNano(), ended
			if err := out.Encode(l); err != nil {
				return err
			}
			account.Receive(ended, &replies[0], nil)
		} else {
			account.Receive(ended, nil, err)
		}
	}
	return file.Close()
}

// mergeOf is the function by which processes merge what they use of a limit. It is the same in all of them.
func mergeOf(t *testing.T, spec limit.Spec) func(time.Time, []byte, []store.Use, int64, int64) ([]byte, int64, time.Time) {
	t.Helper()
	account := lease.NewAccount(site, lease.Options{Seq: func() uint64 { return 1 }})
	m, err := limit.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	account.Durable(key, spec, m, store.Origin{}).When(now, 1)
	b, ok := account.Batch(now)
	if !ok {
		t.Fatal("nothing is asked for a request")
	}
	return b.Asks[0].Joint.Merge
}

// Real processes, of which one is killed while it works.
func TestHistoriesOfRealProcessesThatShareAFile(t *testing.T) {
	if path, id, child := strings.Cut(os.Getenv(childOf), "\n"); child {
		if err := work(path, id); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	t.Parallel()
	merge := mergeOf(t, realSpec)
	for range histories(1) {
		h, path := &trace{now: time.Now}, filepath.Join(t.TempDir(), "abide.db")
		var all sync.WaitGroup
		for i := range 4 {
			c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
			id := fmt.Sprint("p", i)
			c.Env = append(os.Environ(), childOf+"="+path+"\n"+id)
			c.Stderr = os.Stderr
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				ended := operation{Did: ends, Who: id, Begin: math.MinInt64}
				begun := map[uint64]operation{} // :: number of its ask
				for lines := bufio.NewScanner(out); lines.Scan(); {
					var l line
					if json.Unmarshal(lines.Bytes(), &l) != nil {
						continue // killed while it printed
					}
					if l.Use != nil {
						h.took(l.Use.At, l.Use.N)
						continue
					}
					begun[l.Seq] = l.operation(i, id, merge)
					ended.Begin = max(ended.Begin, l.Begin)
				}
				err := c.Wait()
				ended.End = time.Now().UnixNano()
				if id != killed && err != nil {
					t.Errorf("%s: %v", id, err)
				}
				for _, o := range begun {
					h.add(o)
				}
				h.add(ended)
			})
		}
		all.Wait()
		h.linear(t)
		if over, which := (promise{realSpec, late(realSpec)}).over(h.uses); over > 0 {
			t.Errorf("%d over: %s", over, which)
		}
		t.Logf("%d units, %d operations", total(h.uses), len(h.operations))
		if t.Failed() {
			return
		}
	}
}
