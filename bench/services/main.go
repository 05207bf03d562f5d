// Command services crawls simulated services through abide and beside it, in virtual time,
// and prints a table: how often each refuses, and how long the crawls take.
//
//	go -C bench run ./services -run 'arXiv|SEC' -clients 1,64
//
// With kit as its first argument it does so in real time, through the built binary:
//
//	go -C bench run ./services kit -only notion,closed-444 -clients 8
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// services are all that are simulated.
func services() []*service {
	all := append([]*service(nil), announcedServices...)
	return append(append(all, namedServices...), silentServices...)
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "kit" {
		if err := runKit(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	match := flag.String("run", "", "`pattern` of the names of services")
	clients := flag.String("clients", "1,8,64", "numbers of clients")
	alone := flag.Bool("alone", false, "abide only")
	settings := flag.Bool("settings", true, "crawl with all numbers of tokens and clients, times of answers and clocks, too")
	random := flag.Int("random", 300, "how many random services are crawled, too")
	noise := flag.Bool("noise", false, "crawl services that refuse at random, and nothing else")
	several := flag.Int("composites", 0, "how many services with several limits are crawled, and nothing else; with -each: print each crawl")
	routes := flag.Int("routes", 0, "how many times services whose routes have limits of their own, or share one, are crawled, and nothing else; with -each: print each crawl")
	each := flag.Bool("each", false, "print each crawl of a random service, and nothing else")
	flag.Parse()
	err := error(nil)
	switch {
	case *noise:
		err = noiseTable()
	case *routes > 0:
		err = routedTable(*routes, *each)
	case *several > 0:
		err = compositeTable(*several, *each)
	default:
		err = tables(*match, *clients, *alone, *settings, *random, *each)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// tables prints all tables.
func tables(match, clients string, alone, settings bool, random int, each bool) error {
	pattern, err := regexp.Compile(match)
	if err != nil {
		return err
	}
	if !each {
		if err := table(pattern, clients, alone); err != nil {
			return err
		}
	}
	if settings && !each {
		if err := settingsTable(pattern); err != nil {
			return err
		}
	}
	if random <= 0 || match != "" {
		return nil
	}
	if err := randomTable(random, each); err != nil || each {
		return err
	}
	if err := noiseTable(); err != nil {
		return err
	}
	return compositeTable(compositeCount, false)
}

const head = `# Crawls of simulated services, as they document their limits

One run of ` + "`make simulate`" + `, in virtual time. Each service is crawled without any configuration, by 1, 8 and 64 clients, and by 8 and 64 clients with 3 tokens.
Beside abide: clients that repeat as urllib3's Retry does (10 attempts, backoff factor 1), and Scrapy's AutoThrottle with its defaults.

- **× ideal**: the time of the crawl, divided by that of clients that know the limit. Where there are errors, requests were given up, so that the time is not that of the whole crawl.
- **refused**: by the service, in the first half of the requests + in the second half.
- **errors**: answers at the client that are no success.

| service | its limits | clients | tokens | requests | abide: × ideal | refused | errors | urllib3: × ideal | refused | errors | AutoThrottle: × ideal | refused | errors |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
`

// table prints the table.
func table(pattern *regexp.Regexp, clients string, alone bool) error {
	var numbers []int
	for text := range strings.SplitSeq(clients, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-clients: %q is no number of clients", text)
		}
		numbers = append(numbers, n)
	}
	fmt.Print(head)
	for _, s := range services() {
		if !pattern.MatchString(s.name) {
			continue
		}
		for _, n := range numbers {
			if err := row(s, setting{clients: n, tokens: 1}, alone); err != nil {
				return err
			}
		}
		for _, n := range []int{8, 64} {
			if err := row(s, setting{clients: n, tokens: 3}, alone); err != nil {
				return err
			}
		}
	}
	fmt.Print("\nSources:\n\n")
	for _, s := range services() {
		if pattern.MatchString(s.name) {
			fmt.Printf("- %s: %s\n", s.name, s.source)
		}
	}
	return nil
}

// row prints one row.
func row(s *service, c setting, alone bool) error {
	ideal := newRun(s, c).ideal()
	r, err := newRun(s, c).abide()
	if err != nil {
		return err
	}
	fmt.Printf("| %s | %s | %d | %d | %d |%s", s.name, s.kind, c.clients, c.tokens, s.requests, r.cells(ideal.Seconds()))
	if !alone {
		fmt.Print(newRun(s, c).urllib3().cells(ideal.Seconds()), newRun(s, c).autothrottle().cells(ideal.Seconds()))
	}
	fmt.Println()
	for _, why := range r.failed {
		fmt.Fprintf(os.Stderr, "%s, %d clients: %s\n", s.name, c.clients, why)
	}
	return nil
}

// cells are the result in a row.
func (r result) cells(ideal float64) string {
	return fmt.Sprintf(" %.2f | %d + %d | %d |", r.took.Seconds()/ideal, r.early, r.late, r.errors)
}
