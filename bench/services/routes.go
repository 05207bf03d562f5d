package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

// routeLimits are limits of a rate a second, of which none is announced. Requests reach a server at times that vary, so few a second may
// come one by one.
var routeLimits = []struct {
	name string
	make func(rate float64) rule
}{
	{"window", func(rate float64) rule { return starting(second, rate) }},
	{"long window", func(rate float64) rule { return every(5*second, 5*rate) }},
	{"bucket", func(rate float64) rule { return filling(max(rate, 3), rate) }},
	{"paced", func(rate float64) rule { return filling(1, min(rate, fastestOfOne)) }},
}

// routeOrders arrange the paths of a crawl: some searches, and items.
var routeOrders = []struct {
	name    string
	arrange func(searches, items []string) []string
}{
	{"first", func(searches, items []string) []string { return slices.Concat(searches, items) }},
	{"last", func(searches, items []string) []string { return slices.Concat(items, searches) }},
	{"mixed", func(searches, items []string) (all []string) {
		every := len(items) / len(searches)
		for i, path := range searches {
			all = append(append(all, items[i*every:(i+1)*every]...), path)
		}
		return append(all, items[len(searches)*every:]...)
	}},
	{"at random", func(searches, items []string) []string { return shuffled(slices.Concat(searches, items)) }},
	{"blocks", inBlocks},
	{"blocks of searches first", func(searches, items []string) []string { return inBlocks(items, searches) }},
}

// inBlocks arranges three blocks of items, and a block of searches after each.
func inBlocks(searches, items []string) (all []string) {
	for i := range 3 {
		s, n := len(searches), len(items)
		all = append(append(all, items[n*i/3:n*(i+1)/3]...), searches[s*i/3:s*(i+1)/3]...)
	}
	return all
}

func shuffled(all []string) []string {
	rand.New(rand.NewPCG(27, 50)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func repeated(path string, n int) []string { return slices.Repeat([]string{path}, n) }

// routed makes a service that announces nothing.
func routed(group, name string, paths []string, shared func() []rule, limited func(path string) rule) *service {
	s := &service{source: group, name: name, host: "routes.test", kind: silent, paths: paths, requests: len(paths), refuse: refusing(http.StatusTooManyRequests, ""), shared: shared}
	s.scope = func(path string) string { return path[:strings.IndexByte(path[1:]+"/", '/')+1] }
	if limited != nil {
		s.rules = func(path string) []rule {
			if r := limited(path); r != nil {
				return []rule{r}
			}
			return nil
		}
	}
	return s
}

// routedServices are services whose site has a limit, or a route, or both, or each route one of its own.
func routedServices() (list []*service) {
	for _, site := range routeLimits {
		all := one(func() rule { return site.make(20) })
		for _, route := range routeLimits {
			for _, order := range routeOrders {
				for _, c := range []struct {
					rate            float64
					searches, items int
				}{{1, 30, 600}, {5, 120, 360}} {
					paths := order.arrange(repeated("/search", c.searches), repeated("/item/%d", c.items))
					name := fmt.Sprintf("%s of 20 and %s of %.0f a second, %s", site.name, route.name, c.rate, order.name)
					limited := func(path string) rule {
						if strings.HasPrefix(path, "/search") {
							return route.make(c.rate)
						}
						return nil
					}
					list = append(list, routed("a route and all", name, paths, all, limited))
					if site.name == "window" {
						list = append(list, routed("a route", name, paths, nil, limited))
					}
				}
			}
		}
		for _, rate := range []float64{5, 20} {
			var paths, blocks, apart []string
			for i := range 300 {
				paths = append(paths, fmt.Sprintf("/%c/%%d", 'a'+i%10))
				blocks = append(blocks, fmt.Sprintf("/%c/%%d", 'a'+i/30))
				apart = append(apart, fmt.Sprintf("/%c/%%d", 'a'+i/10%10))
			}
			equal := one(func() rule { return site.make(rate) })
			for _, o := range []struct {
				name  string
				paths []string
			}{{"in turn", paths}, {"blocks", blocks}, {"small blocks", apart}, {"at random", shuffled(slices.Clone(paths))}} {
				list = append(list, routed("ten equal routes", fmt.Sprintf("%s of %.0f a second, %s", site.name, rate, o.name), o.paths, equal, nil))
			}
			list = append(list, routed("one route only", fmt.Sprintf("%s of %.0f a second", site.name, rate), repeated("/item/%d", 300), equal, nil))
			fifth := func(string) rule { return site.make(rate / 5) }
			for _, n := range []int{3, 10} {
				list = append(list, routed("each route its own", fmt.Sprintf("%d routes with a %s of %.0f a second", n, site.name, rate/5), shuffled(slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return int(p[1]-'a') >= n })), nil, fifth))
			}
		}
	}
	return list
}

// crawlRouted crawls services with routes by some clients, some times each, at other times of a second.
func crawlRouted(list []*service, times int, clients ...int) (cells []compositeCell) {
	for _, s := range list {
		for _, n := range clients {
			for range times {
				cells = append(cells, compositeCell{service: s, setting: setting{clients: n, tokens: 1, latency: quick}})
			}
		}
	}
	inParallel(len(cells), func(i int) {
		c := &cells[i]
		at := start.Add(time.Duration(i%times) * 377 * time.Millisecond)
		ideal := newRunAt(c.service, c.setting, at).ideal()
		c.result, c.err = newRunAt(c.service, c.setting, at).abide()
		c.ratio = c.took.Seconds() / ideal.Seconds()
	})
	return cells
}

// routedTable prints a row for each group of services with routes, and one for each order, or one for each crawl.
func routedTable(times int, each bool) error {
	ratios, refused, errors := map[string][]float64{}, map[string][]float64{}, map[string]int{}
	var names []string
	cells := crawlRouted(routedServices(), times, 1, 8, 16)
	for i := range cells {
		c := &cells[i]
		if c.err != nil {
			return c.err
		}
		if each {
			fmt.Printf("| %s | %s | %d | %.2f | %d of %d | %d |\n", c.service.source, c.service.name, c.clients, c.ratio, c.refused, c.service.requests, c.errors)
		}
		order := ""
		if at := strings.LastIndex(c.service.name, ", "); at >= 0 {
			order = c.service.name[at:]
		}
		for _, name := range []string{c.service.source, c.service.source + cmp.Or(order, ",") + fmt.Sprintf(", %d clients", c.clients)} {
			if ratios[name] == nil {
				names = append(names, name)
			}
			ratios[name], refused[name] = append(ratios[name], c.ratio), append(refused[name], float64(c.refused))
			errors[name] += c.errors
		}
	}
	if each {
		return nil
	}
	slices.Sort(names)
	fmt.Println("| services | crawls | × ideal: median, 90th percentile, worst | refused | mean | errors |\n| --- | --- | --- | --- | --- | --- |")
	for _, name := range names {
		sum := 0.0
		for _, n := range refused[name] {
			sum += n
		}
		fmt.Printf("| %s | %d | %s | %s | %.1f | %d |\n", name, len(ratios[name]), quantiles(ratios[name], "%.2f"), quantiles(refused[name], "%.0f"), sum/float64(len(refused[name])), errors[name])
	}
	return nil
}
