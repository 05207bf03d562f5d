package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// mostRefused is how many refusals a crawl may need.
func (k *kitKind) mostRefused() int {
	b := k.bound
	most := 8*b.amounts + b.refused + int(b.share*float64(k.requests))
	if b.amounts > 0 {
		most += k.requests / 100
	}
	return most
}

// mostRatio is how many ideal times a crawl may take.
func (k *kitKind) mostRatio() float64 {
	if k.bound.amounts == 0 {
		return cmp.Or(k.bound.ratio, 1.1)
	}
	return cmp.Or(k.bound.ratio, 1.5)
}

// slack is a time that no bound is about: that of a few answers on a machine that does more.
const slack = 400 * time.Millisecond

// limits says which bounds of the kind a crawl exceeds.
func (c *trial) limits(o *outcome) (list []string) {
	if o.errors > 0 {
		list = append(list, fmt.Sprintf("%d errors", o.errors))
	}
	if most := c.kind.mostRefused(); o.refused > most {
		list = append(list, fmt.Sprintf("%d refused, not %d", o.refused, most))
	}
	if most := c.kind.mostRatio(); !c.kind.dawdling && o.took > time.Duration(most*float64(c.ideal))+slack {
		list = append(list, fmt.Sprintf("%.2f × ideal, not %.2f", o.ratio(c.ideal), most))
	}
	return list
}

// faults says which bounds the crawl through abide exceeds, also those by Retry.
func (c *trial) faults() []string {
	const slower, part, few = 1.05, 3, 3
	list := c.limits(c.abide)
	longest := time.Duration(slower*float64(c.retry.took)) + slack
	if c.kind.pausing { // Retry repeats at once where clients shall pause
		longest = max(longest, time.Duration(c.kind.bound.ratio*float64(c.ideal)))
	}
	if c.retry.errors == 0 && c.abide.took > longest {
		list = append(list, fmt.Sprintf("%.2f × Retry's time", c.abide.took.Seconds()/c.retry.took.Seconds()))
	}
	if most := max(few, c.retry.refused/part); !c.kind.bound.chance && c.abide.refused > most {
		list = append(list, fmt.Sprintf("%d refused, and %d of Retry", c.abide.refused, c.retry.refused))
	}
	return list
}

const kitHead = `# Crawls of 54 kinds of services, in real time

One run of ` + "`make services`" + `: services on loopback, crawled through the built binary with its defaults by 1, 8 and 32 clients that ask once for each page and wait for a minute.
Beside it, at a service of the same kind for itself: clients that repeat as urllib3's Retry(total=8, backoff_factor=0.5) does.

- **× ideal**: the time of the crawl, divided by that of clients that know the limits (where refusals come at random: that pause for a second after each).
- **refused**: by the service, which counts. **errors**: pages that a client did not get.
- Bounds: no error. Announced limits: nothing refused, 1.1 × ideal. Hidden ones: 8 refusals for each amount that is to be found and one in 100 requests, 1.5 × ideal. Other bounds stand in the verdicts and in ` + "`bench/services/kit_hidden.go`" + `.
- And: at most 1.05 × Retry's time (where refusals come at random, 1.25 × ideal are allowed, as Retry repeats at once at first), where Retry gets all pages, and at most a third of its refusals, or 3.

`

// busy is the part of the time for which a machine may be late without a warning.
const busy = 0.01

// kitReport is the table.
func kitReport(trials []*trial) string {
	var text strings.Builder
	text.WriteString(kitHead)
	within, retry, refused, others := 0, 0, 0, 0
	for _, c := range trials {
		if len(c.faults()) == 0 {
			within++
		}
		if len(c.limits(c.retry)) == 0 {
			retry++
		}
		refused, others = refused+c.abide.refused, others+c.retry.refused
	}
	fmt.Fprintf(&text, "**%d of %d crawls are within their bounds**; of Retry's, %d are, without those by Retry. Refused: %d, and %d of Retry's.\n\n", within, len(trials), retry, refused, others)
	for i, c := range trials {
		if c.late > busy && (i == 0 || trials[i-1].clients != c.clients) {
			fmt.Fprintf(&text, "The machine was busy during the crawls by %d clients: for %.1f %% of the time a sleeper of 5 ms was woken 20 ms too late. Times say less then.\n\n", c.clients, c.late*100)
		}
	}
	text.WriteString("| kind | clients | requests | seconds | × ideal | refused | errors | Retry: seconds | refused | errors | verdict |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n")
	for _, c := range trials {
		ratio := fmt.Sprintf("%.2f", c.abide.ratio(c.ideal))
		if c.kind.dawdling {
			ratio = "—"
		}
		fmt.Fprintf(&text, "| %s | %d | %d | %s | %s | %d | %d | %s | %d | %d | %s |\n", c.kind.name, c.clients, c.kind.requests,
			c.abide.time(), ratio, c.abide.refused, c.abide.errors, c.retry.time(), c.retry.refused, c.retry.errors, cmp.Or(strings.Join(c.faults(), "; "), "within"))
	}
	return text.String()
}

// time is the time of a crawl in seconds.
func (o *outcome) time() string {
	if o.cut {
		return fmt.Sprintf("> %.0f", o.took.Seconds())
	}
	return fmt.Sprintf("%.1f", o.took.Seconds())
}
