package main

import (
	"fmt"
	"regexp"
	"time"
)

// The settings of crawls. A service must be used to the full in each of them.
var (
	someTokens    = []int{1, 3, 12}
	someClients   = []int{1, 20, 100}
	someLatencies = []time.Duration{50 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second}
	someSkews     = []time.Duration{0, -30 * time.Second, 30 * time.Second}
)

// pairs is an orthogonal array: each two settings meet in one of its nine rows.
var pairs = [][4]int{
	{0, 0, 0, 0},
	{0, 1, 1, 2},
	{0, 2, 2, 1},
	{1, 0, 1, 1},
	{1, 1, 2, 0},
	{1, 2, 0, 2},
	{2, 0, 2, 2},
	{2, 1, 0, 1},
	{2, 2, 1, 0},
}

// pairedSettings returns nine settings, in which each two values meet once.
func pairedSettings() (all []setting) {
	for _, row := range pairs {
		all = append(all, setting{tokens: someTokens[row[0]], clients: someClients[row[1]], latency: someLatencies[row[2]], skew: someSkews[row[3]]})
	}
	return all
}

// allSettings returns each value with each other.
func allSettings() (all []setting) {
	for _, tokens := range someTokens {
		for _, clients := range someClients {
			for _, latency := range someLatencies {
				for _, skew := range someSkews {
					all = append(all, setting{tokens: tokens, clients: clients, latency: latency, skew: skew})
				}
			}
		}
	}
	return all
}

func (c setting) String() string {
	return fmt.Sprintf("%d clients, %d tokens, answers in %v, clock %+.0f s", c.clients, c.tokens, c.latency, c.skew.Seconds())
}

const settingsHead = `
## Tokens, clients, slow answers and wrong clocks

The services that announce their limits, with each number of tokens (1, 3, 12) and clients (1, 20, 100), answers in 50 ms, 500 ms and 2 s, and clocks that are right, 30 s slow and 30 s fast: 81 crawls of each service through abide, and of urllib3.

| service | abide: × ideal (median, 90th percentile, worst) | crawls with refusals | refused | errors | urllib3: refused | errors |
| --- | --- | --- | --- | --- | --- | --- |
`

// settingsTable prints a row for each service that announces its limits.
func settingsTable(pattern *regexp.Regexp) error {
	fmt.Print(settingsHead)
	for _, s := range announcedServices {
		if !pattern.MatchString(s.name) {
			continue
		}
		var ratios []float64
		var sum, others result
		crawls := 0
		for _, c := range allSettings() {
			r, err := newRun(s, c).abide()
			if err != nil {
				return err
			}
			ratios = append(ratios, r.took.Seconds()/newRun(s, c).ideal().Seconds())
			sum.refused, sum.errors = sum.refused+r.refused, sum.errors+r.errors
			if r.refused > 0 {
				crawls++
			}
			other := newRun(s, c).urllib3()
			others.refused, others.errors = others.refused+other.refused, others.errors+other.errors
		}
		fmt.Printf("| %s | %s | %d | %d | %d | %d | %d |\n", s.name, quantiles(ratios, "%.2f"), crawls, sum.refused, sum.errors, others.refused, others.errors)
	}
	return nil
}
