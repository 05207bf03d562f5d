package proxy

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// The whole table takes minutes. Usually a part is run in which every pair of settings
// occurs. One environment variable runs the whole table, another names the file that the
// table is written to.
const (
	simWhole = "ABIDE_SIM_WHOLE"
	simFile  = "ABIDE_SIM_TABLE"
)

const simHead = `# Crawls of simulated services

One run of ` + "`make simulate`" + `: services that announce their limits and enforce them, in fake time, crawled with every number of tokens and clients, latency and error
of their clocks. Used is the share of what was allowed while there was demand for it, of the token and limit where it is least. Beside abide, with the same tokens: one client that
sleeps until the reset as Tweepy does, with one token; and blind turns through the tokens, honouring Retry-After. OpenAI's costs are not announced before, so a few refusals are allowed there.

`

var (
	simTokens  = []int{1, 3, 12}
	simClients = []int{1, 20, 100}
	simTrips   = []time.Duration{50 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second}
	simSkews   = []time.Duration{0, -30 * time.Second, 30 * time.Second}
)

// simPairs is an orthogonal array: in nine rows each two settings meet once.
var simPairs = [][4]int{
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

// simCases is what is run: of the pairs simRows for each service, the next ones
// for the next, or everything.
func simCases(whole bool) (all []simCase) {
	for i, s := range simServices() {
		add := func(tokens, clients, trip, skew int) {
			all = append(all, simCase{s, simTokens[tokens], simClients[clients], simTrips[trip], simSkews[skew]})
		}
		if !whole {
			for j := range simRows {
				row := simPairs[(i+4*j)%len(simPairs)]
				add(row[0], row[1], row[2], row[3])
			}
			continue
		}
		for tokens := range simTokens {
			for clients := range simClients {
				for trip := range simTrips {
					for skew := range simSkews {
						add(tokens, clients, trip, skew)
					}
				}
			}
		}
	}
	return all
}

// TestWhatServersAnnounceIsUsedToTheFullWithoutARefusal holds abide to its goals, and
// compares with the usual clients at the same sites.
func TestWhatServersAnnounceIsUsedToTheFullWithoutARefusal(t *testing.T) {
	whole, file := os.Getenv(simWhole) != "", os.Getenv(simFile)
	cases := simCases(whole)
	rows := make([]string, len(cases))
	t.Run("all", func(t *testing.T) {
		for i, c := range cases {
			t.Run(c.String(), func(t *testing.T) {
				t.Parallel()
				abide := simAbide(t, c)
				abide.holds(t, c)
				row := fmt.Sprintf("| %s | %d | %d | %v | %+.0f s | %d | %.1f %% |", c.service.name, c.tokens, c.clients, c.trip, c.skew.Seconds(), abide.refused, 100*abide.share)
				if file == "" && c.clients == 100 {
					rows[i] = row + " | | | |" // these take long, and nothing depends on them
					return
				}
				tweepy, blind := simTweepy(t, c), simBlind(t, c)
				rows[i] = row + fmt.Sprintf(" %d | %.1f %% | %d | %.1f %% |", tweepy.refused, 100*tweepy.share, blind.refused, 100*blind.share)
			})
		}
	})
	table := "| origin | tokens | clients | round trip | its clock | abide: refused | used | Tweepy's way: refused | used | blind: refused | used |\n" +
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n" + strings.Join(rows, "\n") + "\n"
	t.Log("\n" + table)
	if file != "" {
		if err := os.WriteFile(file, []byte(simHead+table), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// holds checks the goals: no refusal, except where the cost of a request cannot be known.
func (r *simResult) holds(t *testing.T, c simCase) {
	t.Helper()
	refusals := 0
	if c.service.unsaid {
		refusals = r.served / 100
	}
	if len(r.odd) > 0 {
		t.Errorf("a client was shown %d answers such as %s", len(r.odd), r.odd[0])
	}
	if r.refused > refusals {
		t.Errorf("%d of %d refused, at %v", r.refused, r.refused+r.served, r.refusals[:min(10, r.refused)])
	}
	least := .98
	if os.Getenv(simWhole) != "" || c.service.name == "Discord" && c.trip > 50*time.Millisecond {
		// The whole table shows where the goal is missed. Discord's windows are not much
		// longer than a round trip, and the order of requests decides how many windows
		// are seen.
		least = .85
	}
	if r.share < least {
		t.Errorf("%.1f %% of what was allowed were used: %d requests", 100*r.share, r.served)
	}
}

func TestThePartOfTheTableHasEveryPairOfSettings(t *testing.T) {
	for a := range 4 {
		for b := range a {
			var met []int
			for _, row := range simPairs {
				met = append(met, 3*row[a]+row[b])
			}
			slices.Sort(met)
			if len(slices.Compact(met)) != 9 {
				t.Errorf("columns %d and %d: %v", b, a, met)
			}
		}
	}
}
