package status

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ClientLeft is the status of a request whose client left before the end of the answer.
const ClientLeft = 499

// CodeCount counts the answers with a status. 499 counts clients that left before the end of the answer.
type CodeCount struct {
	Code    int    `json:"code"`
	Answers uint64 `json:"answers"`
	Reason  string `json:"reason,omitempty"` // why waiting does not help, such as "no credit", if the answers say so; of 499 the time-out of the clients, such as "5s"
}

// WhileFailing is the reason of 499 where the site was left alone or failed each request when the client left.
const WhileFailing = "the site failed"

// ByAbide begins the reason of answers that abide gave itself.
const ByAbide = "by abide: "

// Draining is the reason of answers that abide gave because it stops.
const Draining = "draining"

// together ends the reason of 499 of a client that left at the same moment as another, as when a program stops all that
// it does: both are one sign of a time-out.
const together = " together"

// Age is the reason of 499 after a time, in two digits, so that time-outs of one length have one reason. first tells
// that no other client has left at the same moment before.
func Age(after time.Duration, first bool) string {
	digits := time.Second / 10
	for after >= 100*digits {
		digits *= 10
	}
	if first {
		return after.Round(digits).String()
	}
	return after.Round(digits).String() + together
}

// fewestTimeOuts is the number of requests that clients ended after nearly the same time from which that is a time-out, if
// they are half of those that clients ended, and ended at fewestMoments or more.
const fewestTimeOuts, fewestMoments = 3, 2

// TimeOuts joins the counts of 499 by their ages: the time after which most clients left is the reason of these if it is
// a time-out, and the others have none.
func TimeOuts(codes []CodeCount) []CodeCount {
	type left struct{ clients, moments uint64 }
	var rest uint64
	var most left
	var age time.Duration
	ages := map[time.Duration]left{}
	joined := slices.DeleteFunc(slices.Clone(codes), func(c CodeCount) bool {
		text, again := strings.CutSuffix(c.Reason, together)
		after, err := time.ParseDuration(text)
		if c.Code != ClientLeft || err != nil && c.Reason != "" {
			return false
		}
		rest += c.Answers
		if at := ages[after]; err == nil {
			if at.clients += c.Answers; !again {
				at.moments += c.Answers
			}
			ages[after] = at
		}
		return true
	})
	for at := range ages {
		var near left
		for other, n := range ages {
			if (at - other).Abs() <= max(at, other)/20 {
				near.clients, near.moments = near.clients+n.clients, near.moments+n.moments
			}
		}
		if near.clients > most.clients || near.clients == most.clients && cmp.Or(cmp.Compare(ages[at].clients, ages[age].clients), cmp.Compare(age, at)) > 0 {
			age, most = at, near
		}
	}
	if most.clients < fewestTimeOuts || most.moments < fewestMoments || 2*most.clients < rest {
		most.clients = 0
	}
	for _, c := range []CodeCount{{ClientLeft, rest - most.clients, ""}, {ClientLeft, most.clients, age.String()}} {
		if c.Answers > 0 {
			joined = append(joined, c)
		}
	}
	slices.SortFunc(joined, compareCodes)
	return joined
}

func compareCodes(a, b CodeCount) int {
	return cmp.Or(a.Code-b.Code, strings.Compare(a.Reason, b.Reason))
}

// FailureOf names how a request failed: by the status of its answer, and the reason that the answer says.
func FailureOf(code int, reason string) string {
	return strings.TrimSuffix(strconv.Itoa(code)+": "+reason, ": ")
}

// ReadFailure reads what FailureOf has made. The status is 0 for what is the reason of abide's own answer.
func ReadFailure(what string) (code int, reason string) {
	status, reason, _ := strings.Cut(what, ": ")
	code, _ = strconv.Atoi(status)
	return code, reason
}

// Failures counts what went wrong with requests.
type Failures struct {
	Codes map[string][]CodeCount `json:"failed"`      // answers from status 400 on, by site
	Own   map[string]uint64      `json:"own_answers"` // of these, those that abide gave itself, and answers that it cut, by reason
	Open  uint64                 `json:"-"`           // of the requests that clients gave up, those that were open when the command ended
	At    []string               `json:"-"`           // the sites of the open requests
}

// Add counts requests to a site that failed in one way: what is a FailureOf, or the reason of abide's own answer.
func (f *Failures) Add(site, what string, requests int64) {
	if f.Codes == nil {
		f.Codes = map[string][]CodeCount{}
	}
	if f.Own == nil {
		f.Own = map[string]uint64{}
	}
	if code, reason := ReadFailure(what); code > 0 {
		counted := CodeCount{Code: code, Reason: reason}
		i, there := slices.BinarySearchFunc(f.Codes[site], counted, compareCodes)
		if !there {
			f.Codes[site] = slices.Insert(f.Codes[site], i, counted)
		}
		f.Codes[site][i].Answers += uint64(requests)
	} else if requests > 0 {
		f.Own[what] += uint64(requests)
	}
}

// codeHints say what answers often mean, and ownHints what to do about answers of abide.
var (
	codeHints = map[int]string{
		http.StatusPaymentRequired: " (to be paid for)",
		http.StatusForbidden:       " (the site may block this crawler)",
	}
	ownHints = map[string]string{
		"port":    " (egress.ports does not name it: --egress-ports any allows each)",
		Draining:  " (abide was asked to stop)",
		"wait":    " (later than queue.wait or Abide-Max-Wait: with a longer one, and a longer time-out, they wait)",
		"stalled": " (the site was silent for longer than stall: set stall: off in its rule if its streams are)",
	}
)

// Count returns the number of answers from status 400 on, and of these the requests that clients gave up, by reason.
func (f Failures) Count() (failed, left uint64, reasons map[string]uint64) {
	reasons = map[string]uint64{}
	for _, codes := range f.Codes {
		for _, c := range codes {
			if failed += c.Answers; c.Code == ClientLeft {
				left += c.Answers
				reasons[c.Reason] += c.Answers
			}
		}
	}
	return failed, left, reasons
}

// Failure counts the requests to a site that failed in one way.
type Failure struct {
	Site, What string // Site is "" where nobody counts by site
	Requests   uint64
	Doc        string // the part of the documents about it, "" for none
}

// List has the failures of each site, those of the most requests first.
func (f Failures) List() (list []Failure) {
	answered := map[string]uint64{}
	maps.Copy(answered, f.Own)
	for site, codes := range f.Codes {
		for _, c := range codes {
			failure := Failure{site, strings.TrimSpace(fmt.Sprint(c.Code, " ", c.Reason)), c.Answers, ""}
			switch reason, byAbide := strings.CutPrefix(c.Reason, ByAbide); {
			case c.Code == ClientLeft:
				failure.What, failure.Doc = "given up by clients", "crawlers.md#time-outs"
				if c.Reason == WhileFailing {
					failure.What += " while it failed"
				} else if c.Reason != "" {
					failure.What += " after " + Spelled(c.Reason)
				}
			case byAbide:
				answered[reason] -= min(answered[reason], c.Answers)
				failure.Doc = "troubleshooting.md#" + reason
			case c.Reason == "":
				failure.What += codeHints[c.Code]
			}
			list = append(list, failure)
		}
	}
	for reason, n := range answered {
		if n > 0 {
			list = append(list, Failure{"", ByAbide + reason + ownHints[reason], n, "troubleshooting.md#" + reason})
		}
	}
	slices.SortFunc(list, func(a, b Failure) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Site, b.Site), cmp.Compare(a.What, b.What))
	})
	return list
}

// Sentences describes what went wrong, of sites with the same failures once. client names who gave requests up.
func (f Failures) Sentences(client string) (list []string) {
	const named = 3
	alike := map[string][]string{} // :: failures → sites
	for _, site := range slices.Sorted(maps.Keys(f.Codes)) {
		var codes []string
		for _, c := range f.Codes[site] {
			if c.Code == ClientLeft {
				continue
			}
			hint := codeHints[c.Code]
			if c.Reason != "" {
				hint = " (" + c.Reason + ")"
			}
			codes = append(codes, fmt.Sprintf("%s %d%s", Number(int(c.Answers), "answer", "answers"), c.Code, hint))
		}
		if len(codes) > 0 {
			text := strings.Join(codes, ", ")
			alike[text] = append(alike[text], site)
		}
	}
	for text, sites := range alike {
		each := ""
		if len(sites) > 1 {
			each = ", each"
		}
		list = append(list, FirstOf(sites, named)+each+": "+text)
	}
	slices.Sort(list)
	var reasons []string
	for _, reason := range slices.Sorted(maps.Keys(f.Own)) {
		reasons = append(reasons, fmt.Sprintf("%d %s%s", f.Own[reason], reason, ownHints[reason]))
	}
	if len(reasons) > 0 {
		list = append(list, fmt.Sprintf("answered or cut by abide itself: %s, see docs/troubleshooting.md#which-answer-means-what", strings.Join(reasons, ", ")))
	}
	_, _, left := f.Count()
	const at = "see docs/crawlers.md#time-outs"
	open := f.Open
	for _, reason := range slices.Sorted(maps.Keys(left)) {
		n := left[reason] - min(left[reason], open)
		open -= left[reason] - n
		how := ", after " + reason + " each: a longer time-out helps, " + at
		switch reason {
		case "":
			how = ": stopped, or at a time-out, " + at
		case WhileFailing:
			how = ", while the site failed"
		}
		if n > 0 {
			list = append(list, fmt.Sprintf("%s given up by %s before the end of the answer%s", Number(int(n), "request", "requests"), client, how))
		}
	}
	if f.Open > 0 {
		list = append(list, fmt.Sprintf("%s to %s still open when %s ended (stopped, or at its time-out: %s)", Number(int(f.Open), "request", "requests"), FirstOf(f.At, named), client, at))
	}
	return list
}

// FirstOf names the first of sites or other things, and counts those after them.
func FirstOf(sites []string, named int) string {
	text := strings.Join(sites[:min(len(sites), named)], ", ")
	if more := len(sites) - named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
