package robots

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/temoto/robotstxt"

	"github.com/abide-proxy/abide/limit"
)

// Bounds of the parts of a robots.txt that are read.
const (
	mostBytes     = 500 << 10 // RFC 9309 asks for as much at least
	mostAgents    = 512       // that are told apart
	longestAgent  = 64
	longestDelay  = time.Hour
	shortestDelay = time.Millisecond
)

// crawlDelays has the delays of the groups of one robots.txt.
type crawlDelays struct {
	groups *robotstxt.RobotsData
	specs  map[time.Duration]*limit.Spec // :: delay → its limit, the same for all requests
}

// parseCrawlDelays reads a robots.txt; it returns nil when there are no delays. Lines that
// cannot be read are passed over, as RFC 9309 has it.
func parseCrawlDelays(text []byte) *crawlDelays {
	if len(text) > mostBytes {
		text = text[:mostBytes]
		text = text[:bytes.LastIndexAny(text, "\r\n")+1] // no half of a line
	}
	plain, delays := condense(string(text))
	if len(delays) == 0 {
		return nil
	}
	groups, err := robotstxt.FromString(plain)
	if err != nil {
		return nil
	}
	c := &crawlDelays{groups, make(map[time.Duration]*limit.Spec, len(delays))}
	for _, delay := range delays {
		c.specs[delay] = &limit.Spec{As: limit.Paced, Amount: 1, Window: delay}
	}
	return c
}

// of returns the delay for a product, 0 if there is none.
func (c *crawlDelays) of(product string) time.Duration {
	return readDelay(c.groups.FindGroup(product).CrawlDelay.Seconds())
}

// condense leaves the groups of a robots.txt with their agents and one Crawl-delay
// each, all that abide needs, in lines that cannot fail. It also gives the delays.
func condense(text string) (plain string, delays []time.Duration) {
	var out strings.Builder
	var agents []string
	delay, began := 0.0, false // of the group: a line that is no agent ends its head
	told := map[string]bool{}
	flush := func() {
		for _, name := range agents {
			if !told[name] && name != "*" && len(told) >= mostAgents {
				continue
			}
			told[name] = true
			out.WriteString("User-agent: " + name + "\n")
		}
		d := readDelay(delay)
		switch {
		case len(agents) == 0:
		case d > 0:
			delays = append(delays, d)
			out.WriteString("Crawl-delay: " + strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "\n")
		default:
			out.WriteString("Disallow: /\n") // says nothing against what another group asks for
		}
		agents, delay, began = agents[:0], 0, false
	}
	for line := range strings.FieldsFuncSeq(strings.TrimPrefix(text, "\ufeff"), func(c rune) bool { return c == '\n' || c == '\r' }) {
		line, _, _ = strings.Cut(line, "#")
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "user-agent", "useragent":
			if began {
				flush()
			}
			if value = productOf(value); value != "" && len(value) <= longestAgent {
				agents = append(agents, value)
			}
		case "allow", "disallow":
			began = true
		case "crawl-delay", "crawldelay":
			began = true
			if strings.Trim(value, "0123456789.") != "" {
				continue
			}
			if d, err := strconv.ParseFloat(value, 64); err == nil || math.IsInf(d, 1) {
				delay = min(d, longestDelay.Seconds())
			}
		}
	}
	flush()
	return out.String(), delays
}

// readDelay returns a number of seconds within the bounds of a Crawl-delay.
func readDelay(seconds float64) time.Duration {
	if !(seconds > 0) {
		return 0
	}
	d := time.Duration(min(seconds, longestDelay.Seconds()) * float64(time.Second))
	return max(d.Round(shortestDelay), shortestDelay)
}

// productToken returns the name of a User-Agent in robots.txt: its first product, or the one
// that it claims to be beside a browser.
func productToken(agent string) string {
	if _, claim, ok := strings.Cut(agent, "compatible;"); ok && strings.HasPrefix(agent, "Mozilla/") {
		if product := productOf(strings.TrimSpace(claim)); product != "" {
			return product
		}
	}
	return productOf(agent)
}

// productOf returns a name without what follows it, such as its version.
func productOf(s string) string {
	end := strings.IndexFunc(s, func(c rune) bool { return c <= ' ' || c >= 0x7f || strings.ContainsRune("/;:,()\"", c) })
	if end < 0 {
		return s
	}
	return s[:end]
}
