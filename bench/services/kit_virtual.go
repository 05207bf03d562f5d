package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

// shape is what an answer of a kind looks like: its body, and when it is there.
func (k *kitKind) shape(status int, h http.Header, n int, body string, rest time.Duration) (string, time.Duration) {
	switch refused := h.Get(refusedHeader) != ""; {
	case refused && k.tarpit > 0:
		h.Del(refusedHeader)
		rest = k.tarpit
		fallthrough
	case !refused && status == http.StatusOK:
		var kind string
		kind, body = k.page(n)
		h.Set("Content-Type", kind)
	}
	return body, rest
}

// virtualRun prepares a crawl of the kind in virtual time. Crawls with different numbers begin at
// different times of a window, their answers take other times, and others are refused at random.
func (k *kitKind) virtualRun(clients, number int) *run {
	c, kind := setting{clients: clients, tokens: max(k.tokens, 1)}, *k
	kind.seed = uint64(number)
	r := newRunAt(&kind.service, c, start.Add(time.Duration(number)*377*time.Millisecond))
	r.kind, r.seed, r.random = &kind, uint64(number), rand.New(rand.NewPCG(uint64(clients), uint64(number)))
	return r
}

// virtual is what crawls of a kind by some clients came to.
type virtual struct {
	ratios, retryRatios   []float64 // times of crawls, divided by the ideal time
	refused, retryRefused []int
	errors, retryErrors   int
	within                int // crawls within the bounds
	faults                map[string]int
}

// simulate crawls each kind some times in virtual time, and prints a table: medians and the worst.
// A credential that is blocked beside the crawl is not simulated.
func (k *kit) simulate(times int) error {
	fmt.Println("| kind | clients | × ideal | worst | refused | most | errors | Retry: × ideal | refused | errors | within | faults |")
	fmt.Println("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
	all, within := 0, 0
	for _, clients := range k.clients {
		for _, kind := range k.kinds {
			if kind.blocked {
				continue
			}
			sized := kind.sized(clients)
			sized.host = kind.through()
			sum, err := sized.simulate(clients, times, k.keep != "")
			if err != nil {
				return err
			}
			slices.Sort(sum.ratios)
			slices.Sort(sum.retryRatios)
			slices.Sort(sum.refused)
			slices.Sort(sum.retryRefused)
			var faults []string
			for what, n := range sum.faults {
				faults = append(faults, fmt.Sprintf("%s: %d", what, n))
			}
			slices.Sort(faults)
			fmt.Printf("| %s | %d | %.2f | %.2f | %d | %d | %d | %.2f | %d | %d | %d of %d | %s |\n", kind.name, clients,
				sum.ratios[times/2], sum.ratios[times-1], sum.refused[times/2], sum.refused[times-1], sum.errors,
				sum.retryRatios[times/2], sum.retryRefused[times/2], sum.retryErrors, sum.within, times, strings.Join(faults, ", "))
			all, within = all+times, within+sum.within
		}
	}
	fmt.Printf("\n%d of %d crawls are within their bounds\n", within, all)
	return nil
}

func (k *kitKind) simulate(clients, times int, each bool) (*virtual, error) {
	sum := &virtual{faults: map[string]int{}}
	for number := range times {
		crawled, err := k.virtualRun(clients, number).abide()
		if err != nil {
			return nil, err
		}
		retried := k.virtualRun(clients, number).retries(8, time.Second/2)
		began := k.virtualRun(clients, number)
		ideal := began.ideal
		if k.pausing {
			ideal = func() time.Duration { return began.pausing().took }
		}
		c := &trial{kind: k, clients: clients, ideal: ideal(), abide: crawled.outcome(), retry: retried.outcome()}
		sum.ratios, sum.retryRatios = append(sum.ratios, c.abide.ratio(c.ideal)), append(sum.retryRatios, c.retry.ratio(c.ideal))
		sum.refused, sum.retryRefused = append(sum.refused, crawled.refused), append(sum.retryRefused, retried.refused)
		sum.errors, sum.retryErrors = sum.errors+crawled.errors, sum.retryErrors+retried.errors
		faults := c.faults()
		if len(faults) == 0 {
			sum.within++
		}
		for _, fault := range faults {
			sum.faults[strings.Trim(fault, "0123456789.,>× ")]++
		}
		if each {
			fmt.Printf("%s, %d clients, crawl %d: %.1f s, ideal %.1f, Retry's %.1f; refused %d, Retry's %d; %v %v\n", k.name, clients, number,
				c.abide.took.Seconds(), c.ideal.Seconds(), c.retry.took.Seconds(), crawled.refused, retried.refused, faults, crawled.failed)
		}
	}
	return sum, nil
}

// outcome is the result as the report of the kit has it.
func (r result) outcome() *outcome {
	return &outcome{took: r.took, refused: r.refused, errors: r.errors, failed: strings.Join(r.failed, "; ")}
}
