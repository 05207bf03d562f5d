package store

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"
)

// childOf says to a test that was started by another one what it is to do.
const childOf = "ABIDE_STORE_CHILD"

// child starts this program again, to run that test alone.
func child(t *testing.T, name, path string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^"+name+"$", "-test.count=1")
	c.Env = append(os.Environ(), childOf+"="+path)
	c.Stderr = os.Stderr
	return c
}

func TestNothingAnsweredIsLostByKill(t *testing.T) {
	if path := os.Getenv(childOf); path != "" {
		countForEver(path)
		return
	}
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	if n, err := strconv.Atoi(os.Getenv("ABIDE_KILL_ROUNDS")); err == nil {
		rounds = n
	}
	path, answered := newPath(t), map[string]int64{}
	for round := range rounds {
		killOne(t, path, answered)
		f, err := OpenFile(t.Context(), path, FileOptions{Strict: true})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		kept := recall(t, f)
		for key, n := range answered {
			if got := kept["s "+key].Ahead; got < n {
				t.Fatalf("round %d: %s was answered %d and has %d", round, key, n, got)
			}
		}
		for _, k := range kept {
			if string(k.State) != fmt.Sprint("state ", k.Ahead) {
				t.Fatalf("round %d: half of it is there: %q with %d", round, k.State, k.Ahead)
			}
			answered[k.Key] = k.Ahead // the next one goes on from there
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d rounds, %d answers", rounds, sum(answered))
}

func sum(all map[string]int64) (n int64) {
	for _, one := range all {
		n += one
	}
	return n
}

// killOne lets a child count and kills it at some moment.
func killOne(t *testing.T, path string, answered map[string]int64) {
	t.Helper()
	c := child(t, t.Name(), path)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(out); in.Scan(); {
			lines <- in.Text()
		}
	}()
	hard := time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() })
	defer hard.Stop()
	var soon *time.Timer
	defer func() {
		if soon != nil {
			soon.Stop()
		}
	}()
	for line := range lines {
		if soon == nil {
			// From its first word on, at any moment of the next ones.
			soon = time.AfterFunc(time.Duration(rand.Int64N(int64(30*time.Millisecond))), func() { _ = c.Process.Kill() })
		}
		var key string
		var n int64
		if k, _ := fmt.Sscanf(line, "%s %d.", &key, &n); k == 2 && line == fmt.Sprintf("%s %d.", key, n) {
			answered[key] = max(answered[key], n)
		}
	}
	_ = c.Wait()
	if soon == nil {
		t.Fatal("the child has not said anything")
	}
}

// countForEver counts up several budgets at once and says what was answered.
func countForEver(path string) {
	ctx := context.Background()
	f, err := OpenFile(ctx, path, FileOptions{Strict: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	at := map[string]int64{}
	kept, err := f.Recall(ctx)
	if err != nil {
		os.Exit(4)
	}
	for _, k := range kept {
		at[k.Key] = k.Ahead
	}
	fmt.Println("begin")
	var mu sync.Mutex
	var all sync.WaitGroup
	instance := fmt.Sprint(os.Getpid())
	for i := range 8 {
		key := fmt.Sprint("k", i)
		n := at[key]
		all.Go(func() {
			for seq := uint64(1); ; seq++ {
				n++
				batch := counts("s", key, seq, n)
				batch[0].Instance = instance
				r, err := f.Exchange(ctx, batch)
				if err != nil || r[0].Answers[0].Status != Done {
					fmt.Fprintln(os.Stderr, err, r)
					os.Exit(5)
				}
				mu.Lock()
				fmt.Printf("%s %d.\n", key, n)
				mu.Unlock()
			}
		})
	}
	all.Wait()
}
