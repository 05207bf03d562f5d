package robots

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestCrawlDelaysAreReadAsPeopleWriteThem(t *testing.T) {
	huge := strings.Repeat("x", longestAgent+1)
	for _, one := range []struct {
		text, agent string
		want        time.Duration
	}{
		{"", "a", 0},
		{"User-agent: *\nCrawl-delay: 2", "a", 2 * time.Second},
		{"\ufeffuser-agent:*\r\ncrawl-delay:2\r\n", "a", 2 * time.Second},
		{"User-agent: *\rCrawl-delay: 2.5 # slowly\r", "", 2500 * time.Millisecond},
		{"Crawl-delay: 9\nDisallow: /\nUser-agent: *\nCrawl-delay: 2", "a", 2 * time.Second}, // before any group
		{"User-agent: *\nCrawl-delay: ten\nSitemap: http://x/y", "a", 0},
		{"User-agent: *\nCrawl-delay: ten\nCrawl-delay: 2", "a", 2 * time.Second},
		{"User-agent: *\nCrawl-delay: 2\n\nUser-agent: b\nCrawl-delay: NaN", "a", 2 * time.Second},
		{"User-agent: *\nCrawl-delay: -1", "a", 0},
		{"User-agent: *\nCrawl-delay: 0", "a", 0},
		{"User-agent: *\nCrawl-delay: 0x10", "a", 0},
		{"User-agent: *\nCrawl-delay: 1e9", "a", 0},
		{"User-agent: *\nCrawl-delay: inf", "a", 0},
		{"User-agent: *\nCrawl-delay: 3601", "a", time.Hour},
		{"User-agent: *\nCrawl-delay: " + strings.Repeat("9", 400), "a", time.Hour},
		{"User-agent: *\nCrawl-delay: 0.00000001", "a", time.Millisecond},
		{"User-agent: *\nCrawl-delay: 0.0015", "a", 2 * time.Millisecond},
		{"User-agent: *\nDisallow: /\nUser-agent: b\nCrawl-delay: 3", "a", 0},
		{"User-agent: *\nDisallow: /\nUser-agent: bot\nCrawl-delay: 3", "Bot/1.0", 3 * time.Second},
		{"User-agent: ab\nUser-agent: bc\nCrawl-delay: 3", "ab/1", 3 * time.Second},
		{"User-agent: ab\nCrawl-delay: 3\nUser-agent: *\nCrawl-delay: 4", "ab/1", 3 * time.Second},
		{"User-agent: ab\nDisallow: /\nUser-agent: *\nCrawl-delay: 4", "ab/1", 0}, // its own group has none
		{"User-agent: *\nCrawl-delay: 4\nUser-agent: *\nDisallow: /x", "a", 4 * time.Second},
		{"User-agent: long\nCrawl-delay: 1\nUser-agent: longer\nCrawl-delay: 2", "longer/1", 2 * time.Second},
		{"User-agent: " + huge + "\nCrawl-delay: 1", huge, 0},
		{"User-agent: Disallow User-agent\nCrawl-delay: 1", "disallow", time.Second},
		{"User-agent: a\xff\nCrawl-delay: 1", "a", time.Second},
		{"User-agent:\nCrawl-delay: 1", "", 0},
	} {
		var got time.Duration
		if c := parseCrawlDelays([]byte(one.text)); c != nil {
			got = c.of(productToken(one.agent))
		}
		if got != one.want {
			t.Errorf("%.80q for %.20q: %v, not %v", one.text, one.agent, got, one.want)
		}
	}
}

func TestCrawlDelaysOfAHostileFileCostLittle(t *testing.T) {
	var manyAgents, manyRules, manyGroups strings.Builder
	for i := range mostBytes / 16 {
		fmt.Fprintf(&manyAgents, "User-agent: %d\n", i)
		manyRules.WriteString("Disallow: *$*$*\n")
	}
	for i := range mostBytes / 32 {
		fmt.Fprintf(&manyGroups, "User-agent: g%d\nCrawl-delay: 1.%d\n", i, i)
	}
	half := manyAgents.String()[:mostBytes/2]
	for _, text := range []string{half + "\n" + manyRules.String(), half + strings.Repeat("\nCrawl-delay: 1", mostBytes/32), manyGroups.String()} {
		var c *crawlDelays
		least := time.Hour // the best of three, as others use the machine too
		for range 3 {
			began := time.Now()
			c = parseCrawlDelays([]byte(text))
			if least = min(least, time.Since(began)); least < time.Second {
				break
			}
		}
		if least > 5*time.Second {
			t.Errorf("%.30q took %v", text, least)
		}
		if c == nil {
			continue
		}
		if n := len(c.delays); n > mostAgents {
			t.Errorf("%.30q has %d agents", text, n)
		}
	}
}

func FuzzCrawlDelays(f *testing.F) {
	f.Add("User-agent: *\nCrawl-delay: 2\n", "abide/1.0")
	f.Add("\ufeffUser-agent: a\rUser-agent: B\rDisallow: /*$\rCrawl-delay: 1e999\r", "Mozilla/5.0 (compatible; b/1; +http://b)")
	f.Add("crawldelay:0.0000001\nuseragent:::\n#\x00\xff", "")
	f.Add("User-agent: Crawl-delay 7\nCrawl-delay: .5.\nCrawl-delay: 00.50", "crawl-delay")
	f.Fuzz(func(t *testing.T, text, agent string) {
		c := parseCrawlDelays([]byte(text))
		if c == nil {
			return
		}
		delay := c.of(productToken(agent))
		if delay < 0 || delay > longestDelay || delay > 0 && c.specs[delay] == nil {
			t.Errorf("%v", delay)
		}
	})
}
