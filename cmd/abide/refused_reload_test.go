package main

import (
	"errors"
	"testing"
	"time"
)

// A faulty file is read when it changes, and again when the operator asks for a reload.
func TestARefusalIsLoggedOnceForAChangeAndTheReloadAfterIt(t *testing.T) {
	var r refusedReload
	for i, step := range []struct {
		at   int // second
		err  error
		said bool
	}{
		{0, errors.New("line 3"), true},
		{2, errors.New("line 3"), false},
		{3, errors.New("line 4"), true},
		{4, nil, true},
		{5, errors.New("line 4"), true},
		{14, errors.New("line 4"), false},
		{15, errors.New("line 4"), true}, // an operator who asks later gets an answer
	} {
		if got := r.note(time.Unix(int64(step.at), 0), step.err); got != step.said {
			t.Errorf("step %d: %v", i, got)
		}
	}
}
