package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/abide-proxy/abide/internal/alive"
	"go.uber.org/goleak"
)

// openFile opens a file whose commits need not outlive a loss of power, so that a thousand of them take a moment.
func openFile(t testing.TB, path string, o FileOptions) *File {
	t.Helper()
	more := o.pragmas
	o.pragmas = func() []string {
		if more == nil {
			return careless()
		}
		return append(careless(), more()...)
	}
	lines, log := &logLines{}, o.Log
	o.Log = func(format string, args ...any) {
		lines.add(fmt.Sprintf(format, args...))
		if log != nil {
			log(format, args...)
		}
	}
	f, err := OpenFile(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	logged.Store(f, lines)
	t.Cleanup(func() {
		f.Close()
		logged.Delete(f)
	})
	return f
}

// careless are pragmas with which a loss of power may lose saved data.
func careless() []string { return []string{"synchronous(OFF)"} }

// logged has the logLines of each file that openFile has opened.
var logged sync.Map

// logLines are the lines of FileOptions.Log.
type logLines struct {
	mu   sync.Mutex
	list []string
}

func (l *logLines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, line)
}

// lines are the logged lines of a file of openFile.
func lines(f *File) []string {
	kept, _ := logged.Load(f)
	l := kept.(*logLines)
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

// wall is a clock on the wall, that goes when it is told to.
type wall struct{ at atomic.Int64 }

func newWall(at time.Time) *wall {
	w := &wall{}
	w.at.Store(at.UnixMicro())
	return w
}

func (w *wall) now() time.Time          { return time.UnixMicro(w.at.Load()).UTC() }
func (w *wall) forward(d time.Duration) { w.at.Add(d.Microseconds()) }

func newPath(t testing.TB) string { return filepath.Join(t.TempDir(), "abide.db") }

// counts says that up to n may have been taken of a key.
func counts(site, key string, seq uint64, n int64) []Batch {
	state := []byte(fmt.Sprint("state ", n))
	joint := &Joint{Owned: true, Merge: func(time.Time, []byte, []Use, int64, int64) ([]byte, int64, time.Time) { return state, n, time.Time{} }}
	return []Batch{{Site: site, Instance: "i", Asks: []Ask{{Key: key, Kind: Count, Seq: seq, Want: n, Joint: joint, State: state}}}}
}

func say(t testing.TB, f *File, batches []Batch) Answer {
	t.Helper()
	replies, err := f.Exchange(context.Background(), batches)
	if err != nil {
		t.Fatal(err)
	}
	return replies[0].Answers[0]
}

func recall(t testing.TB, f *File) map[string]SavedBudget {
	t.Helper()
	all := map[string]SavedBudget{}
	kept, err := f.Recall(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kept {
		if name := k.Site + " " + k.Key; all[name].At.IsZero() {
			all[name] = k
		}
	}
	return all
}

func TestAFileKeepsWhatItAnsweredAcrossARestart(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	path := filepath.Join(t.TempDir(), "with space %41?#", "abide.db")
	f := openFile(t, path, FileOptions{})
	if got := say(t, f, counts("s", "k", 1, 10)); got.Status != Done || got.Granted != 10 {
		t.Fatalf("%+v", got)
	}
	if got := say(t, f, counts("s", "k", 1, 99)); got.Status != Stale {
		t.Fatalf("a repeated message changed something: %+v", got)
	}
	until := time.Now().Add(time.Hour)
	docs := map[string]Document{"a": {[]byte("one"), until}, "b": {[]byte("two"), time.Time{}}, "over": {[]byte("x"), time.Now().Add(-time.Second)}}
	if err := f.PutAll(t.Context(), "ledger", docs); err != nil {
		t.Fatal(err)
	}
	note := Note{Key: "cooldown", Until: until, N: 3, Text: "slow"}
	reply, err := f.Exchange(t.Context(), []Batch{{Site: "s", Instance: "i", Notes: []Note{note}}})
	if err != nil {
		t.Fatal(reply, err)
	}
	generation := reply[0].Generation
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Exchange(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Fatalf("after Close there is %v, %v", left, err)
	}
	if info, _ := left[0].Info(); info.Mode().Perm() != 0o600 {
		t.Errorf("the file has %v", info.Mode())
	}
	if info, _ := os.Stat(filepath.Dir(path)); info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has %v", info.Mode())
	}

	f = openFile(t, path, FileOptions{})
	if k := recall(t, f)["s k"]; string(k.State) != "state 10" || k.Ahead != 10 || time.Since(k.At) > time.Minute {
		t.Fatalf("%+v", k)
	}
	all, err := f.All(t.Context(), "ledger")
	if err != nil || len(all) != 2 || string(all["a"]) != "one" || string(all["b"]) != "two" {
		t.Fatal(all, err)
	}
	reply, err = f.Exchange(t.Context(), []Batch{{Site: "s", Instance: "next", Generation: generation}})
	if err != nil {
		t.Fatal(reply, err)
	}
	if n := reply[0].Notes; len(n) != 1 || n[0].Key != "cooldown" || n[0].Text != "slow" || n[0].Until.UnixMicro() != until.UnixMicro() {
		t.Fatal(n)
	}
	if len(lines(f)) != 0 || f.Health() != (Health{}) {
		t.Fatal(lines(f), f.Health())
	}
	f.Close()
}

func TestAFileTakesManyCallersTogether(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	path := newPath(t)
	synctest.Test(t, func(t *testing.T) {
		var commits atomic.Int64
		var opened atomic.Bool
		free := make(chan bool)
		f := openFile(t, path, FileOptions{fault: func(step string) error {
			if step == "commit" && opened.Load() {
				if commits.Add(1) == 1 {
					<-free
				}
			}
			return nil
		}})
		opened.Store(true)
		const callers, each = 64, 20
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				for n := range each {
					if a := say(t, f, counts("s", fmt.Sprint(i), uint64(n+1), int64(n))); a.Status != Done {
						t.Errorf("%+v", a)
					}
				}
			})
		}
		synctest.Wait() // one caller is being served, and the others wait
		if n := commits.Load(); n != 1 {
			t.Errorf("%d commits go on at once", n)
		}
		close(free)
		all.Wait()
		if got := recall(t, f); len(got) != callers || got["s 7"].Ahead != each-1 {
			t.Errorf("%d keys", len(got))
		}
		f.Close()
		// The second commit has all who waited for the first. Later ones have whoever came
		// meanwhile, which is for the machine to say.
		if n := commits.Load(); n > callers*each-callers+2 {
			t.Errorf("%d commits for %d calls", n, callers*each)
		}
	})
}

func TestACallerLeavesWhenItsContextEnds(t *testing.T) {
	stuck, free := make(chan bool), make(chan bool)
	f := openFile(t, newPath(t), FileOptions{fault: func(step string) error {
		if step == "commit" {
			stuck <- true
			<-free
		}
		return nil
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-stuck
		cancel()
	}()
	if _, err := f.Exchange(ctx, counts("s", "k", 1, 1)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	free <- true
	go func() { // the chores after it
		for range stuck {
			free <- true
		}
	}()
	f.Close()
	close(stuck)
}

func TestTimesFromTheFutureAreBounded(t *testing.T) {
	path, clock := newPath(t), newWall(time.Now())
	now := clock.now()
	f := openFile(t, path, FileOptions{Now: clock.now})
	say(t, f, counts("s", "k", 1, 10))
	if err := f.Put(t.Context(), "cooldown", "s", []byte("x"), now.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	b := Batch{Site: "s", Instance: "i", Notes: []Note{{Key: "n", Until: now.Add(time.Minute)}}}
	if _, err := f.Exchange(t.Context(), []Batch{b}); err != nil {
		t.Fatal(err)
	}
	f.Close()

	clock.forward(-24 * time.Hour)
	f = openFile(t, path, FileOptions{Now: clock.now})
	if k := recall(t, f)["s k"]; k.At.After(clock.now()) {
		t.Errorf("said in the future: %v", k.At)
	}
	b.Instance, b.Notes = "next", nil
	reply, err := f.Exchange(t.Context(), []Batch{b})
	if err != nil || len(reply[0].Notes) != 1 {
		t.Fatalf("the note has gone with the clock: %+v, %v", reply, err)
	}
	if all, _ := f.All(t.Context(), "cooldown"); len(all) != 1 {
		t.Error("a cooldown has gone with the clock")
	}
	clock.forward(61 * time.Second)
	if all, _ := f.All(t.Context(), "cooldown"); len(all) != 0 {
		t.Error("a cooldown waits for the clock")
	}
	reply, err = f.Exchange(t.Context(), []Batch{b})
	if err != nil || len(reply[0].Notes) != 0 {
		t.Fatalf("a note waits for the clock: %+v, %v", reply, err)
	}
}

func TestTheCountsUsedLastAreKept(t *testing.T) {
	path, clock := newPath(t), newWall(time.Now())
	f := openFile(t, path, FileOptions{Now: clock.now, Counts: 100})
	for i := range 400 {
		clock.forward(time.Millisecond)
		say(t, f, counts("s", fmt.Sprint(i), 1, int64(i)))
	}
	order := []string{}
	kept, err := f.Recall(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kept {
		order = append(order, k.Key)
	}
	if len(order) != 100 || order[0] != "399" || order[99] != "300" {
		t.Fatalf("%d: %v", len(order), order)
	}
	clock.forward(2 * time.Hour)
	say(t, f, counts("s", "399", 2, 1)) // counts them
	f.Close()
	f = openFile(t, path, FileOptions{Now: clock.now, Counts: 100})
	f.maintenance.oldest.Store(clock.now().Add(-2*time.Hour - 99*time.Millisecond).UnixMicro())
	say(t, f, counts("s", "399", 1, 1))
	f.Close()
	f = openFile(t, path, FileOptions{Counts: 1000})
	if n := len(recall(t, f)); n != 100 {
		t.Errorf("%d are in the file", n)
	}
}

func TestDocumentsOfAKindAreBounded(t *testing.T) {
	path, clock := newPath(t), newWall(time.Now())
	const most, all = 100, 3*maxRowsPerStep + 50
	f := openFile(t, path, FileOptions{Now: clock.now, Most: map[string]int{"learned": most}})
	documents := map[string]Document{}
	for i := range all {
		documents[fmt.Sprint(i)] = Document{Value: []byte("x"), Until: clock.now().Add(time.Hour + time.Duration(i)*time.Second)}
	}
	for _, kind := range []string{"learned", "other"} {
		if err := f.PutAll(t.Context(), kind, documents); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Put(t.Context(), "learned", "for ever", []byte("x"), time.Time{}); err != nil {
		t.Fatal(err)
	}
	for range 10 { // each drops a part of what was too much when it was counted
		clock.forward(2 * time.Minute)
		say(t, f, counts("s", "k", 1, 1))
	}
	learned, err := f.All(t.Context(), "learned")
	if err != nil || len(learned) != most {
		t.Fatalf("%d are kept: %v", len(learned), err)
	}
	for i := all - most + 1; i < all; i++ {
		if learned[fmt.Sprint(i)] == nil {
			t.Fatalf("%d has left, though it counts for longer than others", i)
		}
	}
	if learned["for ever"] == nil {
		t.Error("what counts for ever has left")
	}
	if other, err := f.All(t.Context(), "other"); err != nil || len(other) != all {
		t.Errorf("of another kind %d are kept: %v", len(other), err)
	}
}

func TestADirectoryThatAnotherProgramLocksIsSaidToBeInUse(t *testing.T) {
	path := newPath(t)
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if err := alive.Lock(dir, alive.Far); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(t.Context(), path, FileOptions{}); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), filepath.Dir(path)) {
		t.Errorf("%v", err)
	}
	dir.Close()
	openFile(t, path, FileOptions{}).Close()
}

func TestAFileWithoutItsOwnerIsFree(t *testing.T) {
	path := newPath(t)
	if err := os.WriteFile(path+".lock", []byte(`{"pid":1,"host":"gone"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	openFile(t, path, FileOptions{})
}
