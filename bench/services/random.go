package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"
)

// randomLengths are the windows of random services: those that services document, and others.
var randomLengths = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 7 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	45 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, time.Hour,
}

// randomLatencies are the mean times of answers of random services.
var randomLatencies = []time.Duration{20 * time.Millisecond, 50 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond}

// randomLimits are the limits of random services. Those that announce have the first four.
var randomLimits = []string{"window", "window of the clock", "rolling window", "bucket", "bucket of one"}

// newRule is a limit with one of the names of randomLimits.
func newRule(name string, amount float64, length, phase time.Duration) rule {
	switch name {
	case "window":
		return &window{amount: amount, length: length}
	case "window of the clock":
		return &window{amount: amount, length: length, aligned: true, phase: phase}
	case "rolling window":
		return &rolling{amount: amount, length: length}
	case "bucket":
		return &bucket{size: amount, rate: amount / length.Seconds()}
	}
	return &bucket{size: 1, rate: min(amount/length.Seconds(), fastestOfOne)}
}

// requestsOf is how many requests a crawl of a limit has: of 20 windows, but neither very few
// nor very many.
func requestsOf(amount float64) int { return int(min(max(20*amount, 60), 4000)) }

// longest503 is the longest window of a random service that refuses with 503: after longer
// times without a success, 503 is an outage.
const longest503 = 5 * time.Minute

// fastestOfOne is the highest rate of a random bucket of one unit, in requests a second.
// Requests reach a server at times that vary, so a higher rate cannot be used.
const fastestOfOne = 10

// randomService is the service of a number. It has one limit that it does not announce, and
// some services say how long a refused request has to wait.
func randomService(n int) *service {
	r := rand.New(rand.NewPCG(uint64(n), 15))
	length := randomLengths[r.IntN(len(randomLengths))]
	amount := math.Round(math.Exp(r.Float64() * math.Log(300)))
	s := &service{host: fmt.Sprintf("random%d.test", n), kind: silent, requests: requestsOf(amount)}
	s.latency = randomLatencies[r.IntN(len(randomLatencies))]
	s.source = randomLimits[r.IntN(len(randomLimits))]
	phase := time.Duration(r.Float64() * float64(length))
	s.shared = one(func() rule { return newRule(s.source, amount, length, phase) })
	var says string
	switch r.IntN(4) {
	case 0:
		s.kind, s.refuse, says = named, waiting(429, "{}"), "429 with Retry-After"
	case 1:
		says = "429 with retry_after"
		s.kind, s.refuse = named, func(t *said, _ http.Header) (int, string) {
			return 429, fmt.Sprintf(`{"error":"slow down","retry_after":%.3f}`, t.wait().Seconds())
		}
	case 2:
		if length <= longest503 {
			s.refuse, says = refusing(503, "Service Unavailable"), "503"
			break
		}
		fallthrough
	default:
		s.refuse, says = refusing(429, ""), "429"
	}
	s.name = fmt.Sprintf("%s, %.0f in %v, %s, answers in %v", s.source, amount, length, says, s.latency)
	return s
}

// cell is a crawl of a random service.
type cell struct {
	*service
	result
	clients int
	ratio   float64 // to the ideal time
}

// crawlRandom crawls random services with several numbers of clients.
func crawlRandom(count int, clients []int, service func(n int) *service) ([]cell, error) {
	var all []cell
	for i := range count {
		s := service(i)
		for _, n := range clients {
			ideal := newRun(s, setting{clients: n, tokens: 1}).ideal()
			r, err := newRun(s, setting{clients: n, tokens: 1}).abide()
			if err != nil {
				return nil, err
			}
			all = append(all, cell{s, r, n, r.took.Seconds() / ideal.Seconds()})
		}
	}
	return all, nil
}

const randomHead = `
## Random services

%d services that announce their limit, and as many that do not, each with one limit of 1 to 300 requests in a time of 1 s to 1 h, and each crawled through abide by 1, 8 and 64 clients: the median, the 90th percentile and the worst.

| limit | crawls | × ideal | refused in the first half | refused in the second half | errors |
| --- | --- | --- | --- | --- | --- |
`

// randomTable prints the table of random services, and each crawl if all is set.
func randomTable(count int, all bool) error {
	cells, err := crawlRandom(count, []int{1, 8, 64}, randomAnnounced)
	if err != nil {
		return err
	}
	silent, err := crawlRandom(count, []int{1, 8, 64}, randomService)
	if err != nil {
		return err
	}
	cells = append(cells, silent...)
	if all {
		slices.SortFunc(cells, func(a, b cell) int { return cmp.Compare(b.ratio, a.ratio) })
		for i := range cells {
			c := &cells[i]
			fmt.Printf("| %s | %d | %d |%s\n", c.name, c.clients, c.requests, c.cells(c.took.Seconds()/c.ratio))
		}
		return nil
	}
	fmt.Printf(randomHead, count)
	groups := map[string][]cell{}
	for _, c := range cells {
		says := "not announced"
		if c.kind == announced {
			says = "announced"
		}
		groups[c.source+", "+says] = append(groups[c.source+", "+says], c)
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		randomRow(name, groups[name])
	}
	return nil
}

// randomRow prints a row of the table of random services.
func randomRow(name string, cells []cell) {
	var ratios, early, late []float64
	errors := 0
	for i := range cells {
		c := &cells[i]
		ratios, early, late = append(ratios, c.ratio), append(early, float64(c.early)), append(late, float64(c.late))
		errors += c.errors
	}
	fmt.Printf("| %s | %d | %s | %s | %s | %d |\n", name, len(ratios), quantiles(ratios, "%.2f"), quantiles(early, "%.0f"), quantiles(late, "%.0f"), errors)
}

// quantiles are the median, the 90th percentile and the highest of values.
func quantiles(values []float64, format string) string {
	if len(values) == 0 {
		return ""
	}
	slices.Sort(values)
	last := len(values) - 1
	return fmt.Sprintf(format+", "+format+", "+format, values[last/2], values[last*9/10], values[last])
}
