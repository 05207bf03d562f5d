// Command services crawls simulated services through abide and beside it, in virtual time,
// and prints a table: how often each refuses, and how long the crawls take.
//
//	go -C bench run ./services -run 'arXiv|SEC' -clients 1,64
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
	match := flag.String("run", "", "`pattern` of the names of services")
	clients := flag.String("clients", "1,8,64", "numbers of clients")
	alone := flag.Bool("alone", false, "abide only")
	random := flag.Int("random", 300, "how many random services are crawled, too")
	each := flag.Bool("each", false, "print each crawl of a random service, and nothing else")
	flag.Parse()
	if err := tables(*match, *clients, *alone, *random, *each); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// tables prints all tables.
func tables(match, clients string, alone bool, random int, each bool) error {
	if !each {
		if err := table(match, clients, alone); err != nil {
			return err
		}
	}
	if random <= 0 || match != "" {
		return nil
	}
	return randomTable(random, each)
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
func table(match, clients string, alone bool) error {
	pattern, err := regexp.Compile(match)
	if err != nil {
		return err
	}
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
			if err := row(s, n, 1, alone); err != nil {
				return err
			}
		}
		for _, n := range []int{8, 64} {
			if err := row(s, n, 3, alone); err != nil {
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
func row(s *service, clients, tokens int, alone bool) error {
	ideal := newRun(s, clients, tokens).ideal()
	r, err := newRun(s, clients, tokens).abide()
	if err != nil {
		return err
	}
	fmt.Printf("| %s | %s | %d | %d | %d |%s", s.name, s.kind, clients, tokens, s.requests, r.cells(ideal.Seconds()))
	if !alone {
		fmt.Print(newRun(s, clients, tokens).urllib3().cells(ideal.Seconds()), newRun(s, clients, tokens).autothrottle().cells(ideal.Seconds()))
	}
	fmt.Println()
	for _, why := range r.failed {
		fmt.Fprintf(os.Stderr, "%s, %d clients: %s\n", s.name, clients, why)
	}
	return nil
}

// cells are the result in a row.
func (r result) cells(ideal float64) string {
	return fmt.Sprintf(" %.2f | %d + %d | %d |", r.took.Seconds()/ideal, r.early, r.late, r.errors)
}
