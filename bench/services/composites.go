package main

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

// composite makes the limits of a service of which no limit is announced, and returns what they are.
type composite struct {
	name string
	make func(d *draw, s *service) string
}

// composites are the kinds of services with more than one limit, or with a limit that is not always the same.
var composites = []composite{
	{"two limits", func(d *draw, s *service) string { return several(d, s, 2) }},
	{"three limits", func(d *draw, s *service) string { return several(d, s, 3) }},
	{"bucket with another burst", func(d *draw, s *service) string {
		rate := d.between(0.5, 20)
		size := math.Ceil(rate * d.between(0.5, 20))
		s.shared = one(func() rule { return &bucket{size: size, rate: rate} })
		s.requests = requestsOf(max(size/2, rate*5))
		return fmt.Sprintf("%.0f at once, %.2f a second", size, rate)
	}},
	{"of all and of each token", func(d *draw, s *service) string {
		all, each := d.limit(1, 300), d.limit(1, 300)
		each.length, each.phase = all.length, all.phase
		each.amount = math.Ceil(all.amount * d.between(0.3, 1))
		s.shared, s.rules = one(all.rule), own(each.rule)
		s.requests = requestsOf(min(all.amount, each.amount))
		return all.String() + "; of each token " + each.String()
	}},
	{"slow answers, in flight", func(d *draw, s *service) string {
		s.atOnce, s.latency = int(d.between(2, 20)), time.Duration(d.between(0.5, 3)*float64(time.Second))
		s.requests = 60 * s.atOnce
		return fmt.Sprintf("%d at once, answers in %v", s.atOnce, s.latency.Round(time.Millisecond))
	}},
	{"in flight and rate", func(d *draw, s *service) string {
		l := d.limit(1, 300)
		s.atOnce, s.latency = int(d.between(2, 20)), time.Duration(d.between(0.2, 1)*float64(time.Second))
		s.shared, s.requests = one(l.rule), requestsOf(l.amount)
		return fmt.Sprintf("%d at once, answers in %v, %v", s.atOnce, s.latency.Round(time.Millisecond), l)
	}},
	{"one route and all", func(d *draw, s *service) string {
		all, route := d.limit(4, 300), d.limit(1, 300)
		route.length, route.amount = all.length, math.Ceil(all.amount*d.between(0.1, 0.5))
		s.paths = []string{"/search/%d", "/items/%d", "/items/%d"}
		s.scope = func(path string) string { return path[:strings.LastIndexByte(path, '/')] }
		s.shared, s.rules = one(all.rule), func(path string) []rule {
			if strings.HasPrefix(path, "/search/") {
				return []rule{route.rule()}
			}
			return nil
		}
		s.requests = requestsOf(all.amount)
		return all.String() + "; /search " + route.String()
	}},
	{"one route", func(d *draw, s *service) string {
		route := d.limit(1, 100)
		s.paths = []string{"/search/%d", "/items/%d", "/items/%d"}
		s.scope = func(path string) string { return path[:strings.LastIndexByte(path, '/')] }
		s.rules = func(path string) []rule {
			if strings.HasPrefix(path, "/search/") {
				return []rule{route.rule()}
			}
			return nil
		}
		s.requests = requestsOf(2 * route.amount)
		return "/search " + route.String()
	}},
	{"limit that changes", func(d *draw, s *service) string {
		before := d.limit(3, 100)
		after, factor := before, []float64{3, 1 / 3.}[d.IntN(2)]
		after.amount = max(math.Round(before.amount*factor), 1)
		s.requests = requestsOf(before.amount + after.amount)
		at := start.Add(time.Duration(8 * float64(before.length)))
		s.shared = one(func() rule { return &changing{before: before.rule(), after: after.rule(), at: at} })
		return fmt.Sprintf("%v, then %.0f", before, after.amount)
	}},
	{"foreign user", func(d *draw, s *service) string {
		l := d.limit(4, 300)
		every := time.Duration(float64(l.length) / l.amount / 0.3)
		s.shared, s.requests = one(func() rule { return &foreign{rule: l.rule(), every: every} }), requestsOf(l.amount)
		return l.String() + ", of which somebody else takes 30 %"
	}},
	{"short windows, slow answers", func(d *draw, s *service) string {
		l := d.limit(1, 40)
		l.length, s.latency = time.Second<<d.IntN(2), time.Duration(d.between(1, 3)*float64(time.Second))
		s.shared, s.requests = one(l.rule), requestsOf(l.amount)
		return fmt.Sprintf("%v, answers in %v", l, s.latency.Round(time.Millisecond))
	}},
	{"punishments", func(d *draw, s *service) string {
		l := d.limit(1, 300)
		l.length = min(l.length, time.Minute)
		length, extends := time.Duration(d.between(1, 5)*float64(l.length)), d.IntN(2) == 0
		s.shared, s.requests = one(func() rule { return &penalty{rule: l.rule(), length: length, extends: extends} }), requestsOf(l.amount)
		return fmt.Sprintf("%v, then nothing for %v, again with each refusal: %v", l, length.Round(time.Second), extends)
	}},
}

// draw draws the figures of a service.
type draw struct {
	*rand.Rand
	longest time.Duration // of the limits drawn
}

// between returns a number between two, of which no size is more likely than another.
func (d *draw) between(low, high float64) float64 {
	return low * math.Pow(high/low, d.Float64())
}

// drawn is a limit of a random service.
type drawn struct {
	kind          string
	amount        float64
	length, phase time.Duration
}

// limit draws a limit of an amount between two.
func (d *draw) limit(least, most float64) drawn {
	l := drawn{kind: randomLimits[d.IntN(4)], amount: math.Round(d.between(least, most))}
	l.length = randomLengths[d.IntN(len(randomLengths)-1)]
	l.phase = time.Duration(d.Float64() * float64(l.length))
	d.longest = max(d.longest, l.length)
	return l
}

func (l drawn) rule() rule { return newRule(l.kind, l.amount, l.length, l.phase) }

func (l drawn) String() string { return fmt.Sprintf("%s of %.0f in %v", l.kind, l.amount, l.length) }

// several gives a service so many limits of all tokens: each longer than the one before, and with a lower rate.
func several(d *draw, s *service, count int) string {
	var limits []drawn
	var names []string
	length, rate := time.Duration(d.between(1, 10))*time.Second, d.between(0.5, 20)
	for range count {
		l := drawn{kind: randomLimits[d.IntN(4)], length: length, amount: max(math.Round(rate*length.Seconds()), 1)}
		l.phase = time.Duration(d.Float64() * float64(length))
		d.longest = max(d.longest, length)
		limits, names = append(limits, l), append(names, l.String())
		length = (length * time.Duration(d.between(3, 15))).Round(time.Second)
		rate = l.amount / l.length.Seconds() * d.between(0.3, 0.9)
	}
	s.shared = func() (rules []rule) {
		for _, l := range limits {
			rules = append(rules, l.rule())
		}
		return rules
	}
	s.requests = requestsOf(limits[count-1].amount / 4)
	return strings.Join(names, ", ")
}

// compositeService is the service of a number. Its source is its kind.
func compositeService(n int) *service {
	d := &draw{Rand: rand.New(rand.NewPCG(uint64(n), 27))}
	kind := composites[n%len(composites)]
	s := &service{host: fmt.Sprintf("composite%d.test", n), kind: silent, source: kind.name, latency: randomLatencies[d.IntN(len(randomLatencies))]}
	s.busy = func(http.Header) (int, string) { return s.refuse(nil, nil) }
	s.name = kind.make(d, s)
	s.refuse = refusing(http.StatusTooManyRequests, "")
	if d.longest <= longest503 && d.IntN(3) == 0 {
		s.refuse = refusing(http.StatusServiceUnavailable, "Service Unavailable")
		s.name += ", 503"
	}
	return s
}

// compositeCount is how many composite services the table of all services has.
const compositeCount = 320

// compositeCell is a crawl of a composite service.
type compositeCell struct {
	service *service
	setting
	result
	ratio float64 // to the ideal time
	err   error
}

// crawlComposites crawls composite services with each number of tokens and clients.
func crawlComposites(count int, tokens, clients []int) []compositeCell {
	var cells []compositeCell
	for i := range count {
		s := compositeService(i)
		for _, t := range tokens {
			for _, n := range clients {
				cells = append(cells, compositeCell{service: s, setting: setting{clients: n, tokens: t}})
			}
		}
	}
	inParallel(len(cells), func(i int) {
		c := &cells[i]
		ideal := newRun(c.service, c.setting).ideal()
		c.result, c.err = newRun(c.service, c.setting).abide()
		c.ratio = c.took.Seconds() / ideal.Seconds()
	})
	return cells
}

const compositeHead = `
## Several limits, and limits that change

%d services without an announcement, each crawled by 1, 8 and 64 clients, with one token and with 3: the median, the 90th percentile and the worst.

| service | tokens | crawls | × ideal | refused | errors |
| --- | --- | --- | --- | --- | --- |
`

// compositeTable prints a row for each kind and number of tokens, or one for each crawl.
func compositeTable(count int, each bool) error {
	type group struct {
		name   string
		tokens int
	}
	ratios, refused, errors := map[group][]float64{}, map[group][]float64{}, map[group]int{}
	cells := crawlComposites(count, []int{1, 3}, []int{1, 8, 64})
	for i := range cells {
		c := &cells[i]
		if c.err != nil {
			return c.err
		}
		if each {
			fmt.Printf("| %s | %s | %d | %d | %.2f | %d + %d of %d | %d |\n", c.service.source, c.service.name, c.clients, c.tokens, c.ratio, c.early, c.late, c.service.requests, c.errors)
		}
		for _, name := range []string{c.service.source, " all"} {
			g := group{name, c.tokens}
			ratios[g], refused[g] = append(ratios[g], c.ratio), append(refused[g], float64(c.refused))
			errors[g] += c.errors
		}
	}
	if each {
		return nil
	}
	fmt.Printf(compositeHead, count)
	for _, g := range slices.SortedFunc(maps.Keys(ratios), func(a, b group) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) {
		fmt.Printf("| %s | %d | %d | %s | %s | %d |\n", strings.TrimSpace(g.name), g.tokens, len(ratios[g]), quantiles(ratios[g], "%.2f"), quantiles(refused[g], "%.0f"), errors[g])
	}
	return nil
}
