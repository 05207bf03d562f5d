package main

import "testing"

// TestSeveralLimitsAreCrawledAtTheirSpeed crawls services with more than one limit, or one that changes.
func TestSeveralLimitsAreCrawledAtTheirSpeed(t *testing.T) {
	t.Parallel()
	cells := crawlComposites(5*len(composites), []int{1, 3}, []int{1, 8, 64})
	slow, errors := 0, 0
	for i := range cells {
		c := &cells[i]
		if c.err != nil {
			t.Fatal(c.err)
		}
		if c.ratio > 2.2 {
			slow++
			t.Logf("%s, %s, %d clients, %d tokens: %.2f × ideal", c.service.source, c.service.name, c.clients, c.tokens, c.ratio)
		}
		errors += c.errors
	}
	if slow > len(cells)/10 || errors > 10 {
		t.Errorf("of %d crawls, %d take more than 2.2 × the ideal time; %d errors", len(cells), slow, errors)
	}
}

// TestARuleWithAnotherIsAskedWithoutAChange: a service asks a rule for the time at which another one lets the request pass.
func TestARuleWithAnotherIsAskedWithoutAChange(t *testing.T) {
	for _, name := range randomLimits {
		r := newRule(name, 2, 10*1e9, 0)
		r.take(start, 1)
		r.take(start, 1)
		first := r.next(start, 1)
		r.next(first.Add(20e9), 1)
		if again := r.next(start, 1); !again.Equal(first) {
			t.Errorf("%s: %v, and after a question for a later time %v", name, first, again)
		}
	}
}
