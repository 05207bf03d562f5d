package output_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/policy/jobfile"
)

func onPostgres(t *testing.T) kept {
	return kept{jobfile.Output{URL: policy.NewSecret(postgres.Database(t))}}
}

func TestTheSuiteHoldsForPostgreSQL(t *testing.T) { suite(t, onPostgres) }

func TestALeaseEndsByTheClockOfTheServer(t *testing.T) {
	o := onPostgres(t).open(t, output.Options{Lease: time.Millisecond})
	j := job(t, o, orders)
	add(t, j, "a")
	first := claim(t, j, 1)[0]
	for {
		if again := claim(t, j, 1); len(again) == 1 {
			break
		}
	}
	if err := j.Commit(t.Context(), first, output.Page{Ends: output.Done}); !errors.Is(err, output.ErrLost) {
		t.Error(err)
	}
}

func TestAServerThatComesBackIsUsedAgain(t *testing.T) {
	o := onPostgres(t).open(t, output.Options{})
	j := job(t, o, orders)
	add(t, j, "a")
	c := claim(t, j, 1)[0]
	page := output.Page{Records: []output.Record{record("1", "a", 0)}, Ends: output.Done}
	ok(t, postgres.Stop())
	err := j.Commit(t.Context(), c, page)
	ok(t, postgres.Restart())
	if !errors.Is(err, output.ErrAway) || errors.Is(err, output.ErrLost) {
		t.Fatal(err)
	}
	for err = output.ErrAway; errors.Is(err, output.ErrAway); { // connections of before fail once
		err = j.Commit(t.Context(), c, page)
	}
	ok(t, err)
	if got := ids(read(t, j, time.Time{})); got != "1" {
		t.Errorf("%q", got)
	}
}

// A process that begins waits for none that is frozen within a transaction.
func TestAProcessBeginsBesideOneThatIsFrozenWithinATransaction(t *testing.T) {
	at := onPostgres(t)
	item := at.open(t, output.Options{})
	add(t, job(t, item, orders), "a", "b")
	frozen, err := output.BeginWithoutEnd(t.Context(), item, orders.Name)
	ok(t, err)
	defer frozen.Rollback()
	ctx, cancel := context.WithTimeout(t.Context(), output.LeaseTime/2)
	defer cancel()
	other := job(t, at.open(t, output.Options{}), orders)
	must[int64](t)(other.AddUnits(ctx, func(yield func(output.Unit, error) bool) {
		for i, key := range []string{"a", "b", "c"} {
			if !yield(output.Unit{Key: key, Place: int64(i)}, nil) {
				return
			}
		}
	}, false))
	_, err = other.Retry(ctx, nil, false)
	ok(t, err)
	if got := keys(claim(t, other, 1)); got != "c" {
		t.Errorf("%q", got)
	}
}

func TestAProcessThatIsFrozenWithinATransactionLosesItsUnits(t *testing.T) {
	at := onPostgres(t)
	item, two := at.open(t, output.Options{Lease: 200 * time.Millisecond}), at.open(t, output.Options{Lease: 200 * time.Millisecond})
	j, other := job(t, item, orders), job(t, two, orders)
	add(t, j, "a")
	claim(t, j, 1)
	frozen, err := output.BeginWithoutEnd(t.Context(), item, orders.Name)
	ok(t, err)
	defer frozen.Rollback()
	for over := time.Now().Add(5 * time.Minute); ; {
		if got := claim(t, other, 1); len(got) == 1 {
			return
		}
		if time.Now().After(over) {
			t.Fatal("the unit stays locked")
		}
	}
}
